/** Starts a server, prints its port, and runs until it is killed. */
import { RedisLab } from "./redis-lab.js";

const { port } = await new RedisLab().standalone();
console.log(port);
setInterval(() => undefined, 60_000);
