/**
 * One process that is measured: a contender on its own connection to Redis, and a source. It does what its parent's orders say, and ends with
 * its parent. SETUP comes from the environment.
 */
import { Redis } from "ioredis";
import { type Bench, burst, growth, pour, repeat } from "./agent-orders.js";
import { ALL_CONTENDERS } from "./contenders/all.js";
import { instantMs } from "./instant.js";
import { type AgentSetup, NOTHING, type Order, type Report } from "./orders.js";
import { Source } from "./source.js";

const setup = JSON.parse(process.env.SETUP ?? "{}") as AgentSetup;

/** The same client for everybody: what the README advises, and a command timeout where Redis goes away. */
function connect(port: number): Redis {
  const { commandTimeoutMs } = setup;
  const timeout = commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs };
  const client = new Redis(port, "127.0.0.1", { maxRetriesPerRequest: 1, enableOfflineQueue: false, ...timeout });
  client.on("error", () => undefined);
  return client;
}

async function ready(client: Redis): Promise<Redis> {
  if (client.status !== "ready") await new Promise((resolve) => client.once("ready", resolve));
  return client;
}

const contender = ALL_CONTENDERS.find(({ name }) => name === setup.contender);
if (contender === undefined) throw new Error(`there is no contender ${setup.contender}`);
const client = await ready(connect(setup.port));
const database = setup.databasePort === undefined ? undefined : await ready(connect(setup.databasePort));
const source = new Source(database);
source.settings = setup.source;
const decoded = contender.open({ client, prefix: setup.prefix, source, keeping: setup.keeping });
const bench: Bench = { decoded, source };

async function obey(order: Order): Promise<Partial<Report>> {
  switch (order.do) {
    case "source":
      source.settings = { ...source.settings, ...order.settings };
      return {};
    case "warm":
      return burst(bench, [order.ids], 0);
    case "repeat":
      return repeat(bench, order.requests, order.times);
    case "burst":
      return burst(bench, order.requests, order.atMs);
    case "pour":
      return pour(bench, order);
    case "read": {
      const { version } = await decoded.request()(order.id);
      return { version, answeredAt: instantMs() };
    }
    case "invalidate":
      await decoded.invalidate(order.id);
      return {};
    case "heap":
      return growth(bench, order.keys);
    case "loads":
      return { loads: source.takeLoads() };
  }
}

process.on("message", ({ id, order }: { id: number; order: Order }) => {
  obey(order).then(
    (report) => process.send?.({ id, report: { ...NOTHING, ...report } }),
    (error: unknown) => process.send?.({ id, failure: error instanceof Error ? error.stack : String(error) }),
  );
});
process.on("unhandledRejection", () => undefined);
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
