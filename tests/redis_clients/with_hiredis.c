/* hiredis: one take, then a pipeline of a counter. Prints what was answered. */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  redisContext* redis = redisConnect("127.0.0.1", atoi(argv[1]));
  if (redis == NULL || redis->err) return 1;
  redisReply* reply = redisCommand(redis, "CL.THROTTLE %b 15 30 60", "a\0b", (size_t)3);
  if (reply == NULL || reply->type != REDIS_REPLY_ARRAY || reply->elements != 5) return 1;
  printf("%lld\n", reply->element[0]->integer);
  freeReplyObject(reply);
  redisAppendCommand(redis, "INCRBY hiredis 1");
  redisAppendCommand(redis, "EXPIRE hiredis 60 NX");
  for (int i = 0; i < 2; ++i) {
    if (redisGetReply(redis, (void**)&reply) != REDIS_OK) return 1;
    printf("%lld\n", reply->integer);
    freeReplyObject(reply);
  }
  redisFree(redis);
  return 0;
}
