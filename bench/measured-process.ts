/**
 * One measured process: a program with its own Redis connection. It runs the commands that its parent sends and exits with its
 * parent. The environment variable SETUP contains a ProcessSetup.
 */
import { Redis } from "ioredis";
import type { Commands, ProcessSetup } from "./fleet.js";

const { module, port, commandTimeoutMs, setup } = JSON.parse(process.env.SETUP ?? "{}") as ProcessSetup;
/** The same client for all contenders. */
const client = new Redis(port, "127.0.0.1", {
  maxRetriesPerRequest: 1,
  enableOfflineQueue: false,
  ...(commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs }),
});
client.on("error", () => undefined);
await new Promise((resolve) => client.once("ready", resolve));
const { open } = (await import(`./${module}.js`)) as { open(setup: unknown, client: Redis): Promise<Commands> };
const commands = await open(setup, client);

process.on("message", ({ id, name, argument }: { id: number; name: string; argument: never }) => {
  const run = async (): Promise<unknown> => commands[name]?.(argument);
  run().then(
    (report) => process.send?.({ id, report }),
    (error: unknown) => process.send?.({ id, failure: error instanceof Error ? error.stack : String(error) }),
  );
});
process.on("unhandledRejection", () => undefined);
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
