import { once } from "node:events";
import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { startProgram } from "../support/programs.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { memoryWorld } from "../support/world.js";

const clusterServers = await sharedServer("redisCluster");
const standaloneServer = await sharedServer("redisStandalone");

const typeDefs = "type Query { value: Int @cached(maxAge: 60) }";
const MANY = 30;

/** Collects the warnings of Node.js while the test runs. */
function watchWarnings(): readonly string[] {
  const warnings: string[] = [];
  const onWarning = ({ message }: Error): void => void warnings.push(message);
  process.on("warning", onWarning);
  onTestFinished(() => void process.off("warning", onWarning));
  return warnings;
}

describe("Many caches on one client", () => {
  const lab = new RedisLab();
  let server: LabNode;
  let admin: Redis;
  beforeAll(async () => {
    server = await lab.standalone();
    admin = new Redis(server.port, server.host);
  });
  afterAll(async () => {
    admin.disconnect();
    await lab.stop();
  });

  /** How many connections the server has, besides the one that asks. */
  const connections = async (): Promise<number> => Number(/connected_clients:(\d+)/.exec(await admin.info())?.[1]) - 1;

  it("have one connection for wake-ups, and cause no warning", async () => {
    const warnings = watchWarnings();
    const client = new Redis(server.port, server.host);
    const caches = Array.from({ length: MANY }, (_, nth) =>
      createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: `many-${nth}` }),
    );
    const areListening = async (): Promise<boolean> =>
      (await admin.pubsub("CHANNELS", "many-*")).length === MANY && client.status === "ready";
    await until("all are subscribed", areListening);
    expect(await connections()).toBe(2);
    for (const event of ["error", "ready", "connecting", "end"]) expect(client.listenerCount(event)).toBe(1);
    for (const cache of caches.slice(1)) await cache.close();
    await until("the others are unsubscribed", async () => (await admin.pubsub("CHANNELS", "many-*")).length === 1);
    expect(await connections()).toBe(2);
    await caches[0]?.close();
    await until("only the client is connected", async () => (await connections()) === 1);
    for (const event of ["ready", "connecting", "end"]) expect(client.listenerCount(event)).toBe(0);
    expect(client.status).toBe("ready");
    client.disconnect();
    expect(warnings).toEqual([]);
  });

  it("have one listener for each event of a Cluster client, and one connection for wake-ups", async () => {
    const warnings = watchWarnings();
    const client = new Cluster([...clusterServers]);
    const caches = Array.from({ length: MANY }, (_, nth) =>
      createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: `many-cluster-${nth}` }),
    );
    const nodes = clusterServers.map(({ host, port }) => new Redis(port, host));
    const subscribed = async (): Promise<number> => {
      const counts = await Promise.all(nodes.map((node) => node.pubsub("CHANNELS", "many-cluster-*")));
      return counts.flat().length;
    };
    await until("all are subscribed", async () => (await subscribed()) === MANY);
    for (const event of ["error", "ready", "connecting", "end", "+node", "node error", "refresh"])
      expect(client.listenerCount(event), event).toBeLessThanOrEqual(2);
    for (const cache of caches) await cache.close();
    await until("none is subscribed", async () => (await subscribed()) === 0);
    for (const node of [client, ...nodes]) node.disconnect();
    expect(warnings).toEqual([]);
  });

  it("each get messages about loads of their own prefix only", async () => {
    const client = new Redis(server.port, server.host);
    const other = new Redis(server.port, server.host);
    onTestFinished(() => {
      for (const one of [client, other]) one.disconnect();
    });
    const loads: string[] = [];
    for (const prefix of ["heard-a", "heard-b"]) {
      const start = (own: Redis) =>
        memoryWorld(() => redisStore({ client: own })).process(
          typeDefs,
          { Query: { value: () => loads.push(prefix) } },
          { prefix },
        );
      const [one, second] = [start(client), start(other)];
      const [first, waited] = await Promise.all([one.ask("{ value }"), second.ask("{ value }")]);
      expect(first.data).toEqual(waited.data);
    }
    expect(loads).toEqual(["heard-a", "heard-b"]);
  });

  it("are connected again when the client is, after it was closed", async () => {
    const client = new Redis(server.port, server.host);
    client.on("error", () => undefined);
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: redisStore({ client }),
      prefix: "reconnected",
      memory: { maxStalenessMs: 2_000 },
    });
    onTestFinished(async () => {
      await cache.close();
      client.disconnect();
    });
    const isHealthy = async (): Promise<boolean> => (await cache.health()).status === "ok";
    const subscribed = async (): Promise<number> => (await admin.pubsub("CHANNELS", "reconnected*")).length;
    await until("it is connected", async () => (await isHealthy()) && (await subscribed()) === 2);
    await client.quit();
    await until("nothing is connected", async () => (await connections()) === 0);
    expect(await subscribed()).toBe(0);
    await client.connect();
    await until("it is connected again", async () => (await isHealthy()) && (await subscribed()) === 2);
  });

  it("open no connection before a client that connects with its first command", async () => {
    const client = new Redis(server.port, server.host, { lazyConnect: true });
    const cache = createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: "lazy" });
    onTestFinished(async () => {
      await cache.close();
      client.disconnect();
    });
    expect(client.status).toBe("wait");
    const values = cache.loader({ name: "Value", maxAge: 1, batch: async (ids: readonly number[]) => ids });
    expect(await values({}).load(1)).toBe(1);
    await until("it is subscribed", async () => (await admin.pubsub("CHANNELS", "lazy*")).length === 1);
  });
});

describe.each([
  ["a single server", () => [standaloneServer]],
  ["a Cluster", () => clusterServers],
])("A process whose client on %s was closed", (_name, addresses) => {
  it.each(["quit", "disconnect"])(
    "ends although its caches were not: %s",
    async (end) => {
      const child = await startProgram("unclosed-process", { ADDRESSES: JSON.stringify(addresses()), END: end });
      onTestFinished(() => void child.kill("SIGKILL"));
      const exited = once(child, "exit");
      await once(child, "message");
      expect((await exited)[0]).toBe(0);
    },
    30_000,
  );
});
