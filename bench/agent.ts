/**
 * One measured process: a contender with its own Redis connection, and a source. It runs the commands that
 * its parent sends and exits with its parent. The environment variable SETUP contains an AgentSetup.
 */
import { Cluster, Redis } from "ioredis";
import { type AgentCommand, type AgentReport, type AgentSetup, EMPTY_REPORT } from "./agent-protocol.js";
import type { Contender } from "./contenders/contender.js";
import { instantMs } from "./instant.js";
import { Source } from "./source.js";
import {
  type AgentContext,
  burst,
  Cursors,
  cycle,
  fill,
  measureHeapGrowth,
  readAsCrowd,
  readInTurn,
  sendArrivals,
  sendTraffic,
} from "./workloads.js";

const setup = JSON.parse(process.env.SETUP ?? "{}") as AgentSetup;

/** Creates the same client for all contenders, with a command timeout for scenarios in which Redis is unavailable. */
function connect(port: number): Redis {
  const { commandTimeoutMs } = setup;
  const timeout = commandTimeoutMs === undefined ? {} : { commandTimeout: commandTimeoutMs };
  const client = new Redis(port, "127.0.0.1", { maxRetriesPerRequest: 1, enableOfflineQueue: false, ...timeout });
  client.on("error", () => undefined);
  return client;
}

/** Creates the client of a Cluster. Contenders use only what it shares with a single client. */
function connectToCluster(ports: readonly number[]): Redis {
  const cluster = new Cluster(
    ports.map((port) => ({ port, host: "127.0.0.1" })),
    { redisOptions: { maxRetriesPerRequest: 1 } },
  );
  cluster.on("error", () => undefined);
  return cluster as unknown as Redis;
}

async function waitUntilReady(client: Redis): Promise<Redis> {
  if (client.status !== "ready") await new Promise((resolve) => client.once("ready", resolve));
  return client;
}

const exported = Object.values((await import(`./${setup.module}.js`)) as Record<string, unknown>).flat();
const contender = (exported as (Partial<Contender> | undefined)[]).find((one) => one?.name === setup.contender);
if (contender?.open === undefined) throw new Error(`agent: unknown contender ${setup.contender}`);
const client = await waitUntilReady(
  setup.clusterPorts === undefined ? connect(setup.port) : connectToCluster(setup.clusterPorts),
);
const database = setup.databasePort === undefined ? undefined : await waitUntilReady(connect(setup.databasePort));
const source = new Source(database);
source.settings = setup.source;
const instance = contender.open({ client, prefix: setup.prefix, source, policy: setup.policy });
const context: AgentContext = { instance, source, cursors: new Cursors() };

async function execute(command: AgentCommand): Promise<Partial<AgentReport>> {
  switch (command.do) {
    case "source":
      source.settings = { ...source.settings, ...command.settings };
      return {};
    case "warm":
      return burst(context, [command.ids], 0);
    case "fill":
      return fill(context, command);
    case "cycle":
      return cycle(context, command);
    case "burst":
      return burst(context, command.requests, command.atMs, command.watchesStalls);
    case "arrivals":
      return sendArrivals(context, command);
    case "crowd":
      return readAsCrowd(context, command);
    case "traffic":
      return sendTraffic(context, command);
    case "read": {
      const { version } = await instance.request()(command.id);
      return { version, completedAt: instantMs() };
    }
    case "reads":
      return readInTurn(context, command.ids);
    case "invalidate":
      await instance.invalidate(command.id);
      return {};
    case "heap":
      return measureHeapGrowth(context, command.keys);
    case "serve":
      throw new Error("agent: serves no GraphQL requests");
    case "loads":
      return { loads: source.takeLoads() };
  }
}

process.on("message", ({ id, command }: { id: number; command: AgentCommand }) => {
  execute(command).then(
    (report) => process.send?.({ id, report: { ...EMPTY_REPORT, ...report } }),
    (error: unknown) => process.send?.({ id, failure: error instanceof Error ? error.stack : String(error) }),
  );
});
process.on("unhandledRejection", () => undefined);
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
