"""redis-py: takes, and a pipeline of a counter. Prints what was answered."""
import sys

import redis

client = redis.Redis(port=int(sys.argv[1]), client_name="gateway")
for _ in range(2):
    print(client.execute_command("CL.THROTTLE", "python", 0, 1, 60))
pipeline = client.pipeline(transaction=False)
for _ in range(2):
    pipeline.incrby("python", 1)
    pipeline.execute_command("EXPIRE", "python", 60, "NX")
print([reply if i % 2 == 0 else bool(reply) for i, reply in enumerate(pipeline.execute())])
print(client.ttl("python"))
