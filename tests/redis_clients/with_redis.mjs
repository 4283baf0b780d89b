// npm redis: takes, and a counter. Prints what was answered.
import { createClient } from 'redis';

const client = createClient({ socket: { port: Number(process.argv[2]) } });
await client.connect();
for (let i = 0; i < 2; ++i) {
  console.log(String(await client.sendCommand(['CL.THROTTLE', 'node-redis', '0', '1', '60'])));
}
const [count, isSet] = await Promise.all([client.incr('node-redis'), client.expire('node-redis', 60)]);
console.log(`${count} ${Number(isSet)}`);
await (client.close ?? client.quit).call(client);
