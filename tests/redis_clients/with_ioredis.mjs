// npm ioredis: takes, and a pipeline of a counter. Prints what was answered.
import Redis from 'ioredis';

const client = new Redis({ port: Number(process.argv[2]) });
for (let i = 0; i < 2; ++i) {
  console.log(String(await client.call('CL.THROTTLE', 'ioredis', 0, 1, 60)));
}
const replies = await client.pipeline().incrby('ioredis', 1).expire('ioredis', 60).exec();
console.log(replies.map(([, value]) => value).join(' '));
client.disconnect();
