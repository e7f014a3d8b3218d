/** A process that starts a server in a lab, prints its port, and waits to be killed. */
import { RedisLab } from "./redis-lab.js";

const { port } = await new RedisLab().standalone();
console.log(port);
setInterval(() => undefined, 60_000);
