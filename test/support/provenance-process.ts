/** A process that invalidates in the ways that its parent process names. The environment provides PORT and PREFIX. */
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { createProvenanceSite, WAYS, type Way } from "./provenance-site.js";

export interface Command {
  readonly way: Way;
  readonly id: string;
}

const { PORT, PREFIX = "" } = process.env;
const site = createProvenanceSite(redisStore({ client: new Redis(Number(PORT), "127.0.0.1") }), PREFIX);

process.on("message", async ({ way, id }: Command) => {
  await WAYS[way](site, id);
  process.send?.("done");
});
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
