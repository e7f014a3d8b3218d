import { randomUUID } from "node:crypto";
import { FakeClock } from "@graphql-cached/testing";
import { type Cache, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { createKeySpace } from "../../src/core/keys/key.js";
import { countedReads } from "../support/counted-reads.js";
import { isConnected, PACKAGES, type StoreClient } from "../support/redis-clients.js";
import { type Address, RedisLab, until } from "../support/redis-lab.js";
import { monitorRedis } from "../support/redis-monitor.js";
import { sharedServer } from "../support/shared-servers.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top: [Int!] @cached(maxAge: 60)
    tagged: Int @cached(maxAge: 60, tags: ["T"])
    found: Int @cached(maxAge: 60, tags: ["R:{$result}"])
    nothing: Int @cached(maxAge: 60)
    brief: Int @cached(maxAge: 1)
  }
`;

/** Starts a process whose memory counts for two seconds. `counts.reads` counts the reads that reach the store. */
function startProcess(client: StoreClient, prefix: string, options: object = {}) {
  const state = { loads: 0 };
  const load = (): number => ++state.loads;
  const { store, counts } = countedReads(redisStore({ client }));
  const process = memoryWorld(() => store).process(
    typeDefs,
    { Query: { top: () => [load()], tagged: load, found: load, nothing: () => (state.loads++, null), brief: load } },
    { prefix, memory: { maxStalenessMs: 2_000 }, ...options },
  );
  return { state, counts, ...process };
}

/** Repeats a query until it is answered without reading the store. */
async function untilInMemory({ ask, counts }: ReturnType<typeof startProcess>, query: string): Promise<void> {
  await until(`${query} is served from memory`, async () => {
    const before = counts.reads;
    await dataOf(ask(query));
    return counts.reads === before;
  });
}

describe.each(PACKAGES)("Memory that counts for two seconds, with a client of $name", ({ server, cluster }) => {
  const lab = new RedisLab();
  const clients: StoreClient[] = [];
  let address: Address;
  let admin: Redis;
  const connect = (to = address): StoreClient => {
    const client = server(to);
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    address = await lab.standalone();
    admin = new Redis({ ...address, retryStrategy: () => 20 });
    clients.push(admin);
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });

  it("serves values from the memory of the process and counts them as hits", async () => {
    const one = startProcess(connect(), randomUUID());
    for (const query of ["{ top }", "{ tagged }", "{ found }", "{ nothing }"]) await untilInMemory(one, query);
    const { reads } = one.counts;
    const before = one.outcomes().hit ?? 0;
    expect(await dataOf(one.ask("{ top nothing }"))).toEqual({ top: [1], nothing: null });
    expect(one.counts.reads).toBe(reads);
    expect(one.outcomes().hit).toBe(before + 2);
  });

  it("learns from a message what another process has invalidated by key, by tag or by a tag of the result", async () => {
    // It never asks by itself: no time passes for it.
    const [clock, prefix] = [new FakeClock(), randomUUID()];
    const one = startProcess(connect(), prefix, { testing: { clock } });
    const other = startProcess(connect(), prefix);
    const query = "{ top tagged found }";
    await untilInMemory(one, query);
    const first = (await dataOf(one.ask(query))) as { found: number };
    await until("the channel is subscribed", async () => (await subscribersOf(prefix)) === 2);
    await other.cache.invalidate({ coordinate: "Query.top", args: {} });
    await other.cache.invalidateTags(["T", `R:${first.found}`]);
    await until("all three are new", async () => {
      const now = (await dataOf(one.ask(query))) as { top: number[]; tagged: number; found: number };
      return now.top[0] !== 1 && now.tagged > 3 && now.found > 3;
    });
    await untilInMemory(one, query);
  });

  it("is the only one that messages of invalidations are sent to, on the connection for wake-ups", async () => {
    const prefix = randomUUID();
    const without = startProcess(connect(), prefix, { memory: false });
    await without.ask("{ top }");
    expect(await subscribersOf(prefix)).toBe(0);
    const client = connect();
    await until("the client is connected", () => isConnected(client));
    const before = await connectionCount();
    const withMemory = startProcess(client, prefix);
    await withMemory.ask("{ top }");
    await until("the channel is subscribed", async () => (await subscribersOf(prefix)) === 1);
    expect(await connectionCount()).toBe(before + 1);
    await withMemory.cache.close();
    await until("the channel is not subscribed", async () => (await subscribersOf(prefix)) === 0);
  });

  it("ignores messages that are no heads, and reads nothing for heads that it knows", async () => {
    const [clock, prefix] = [new FakeClock(), randomUUID()];
    const one = startProcess(connect(), prefix, { testing: { clock } });
    await untilInMemory(one, "{ top }");
    await until("the channel is subscribed", async () => (await subscribersOf(prefix)) === 1);
    const channel = `${prefix}:#clock`;
    const head = (await admin.getBuffer(channel)) as Buffer;
    for (const message of [head, "", "garbage", Buffer.alloc(56)]) await admin.publish(channel, message);
    const monitor = await monitorRedis(address);
    const commands = await monitor.requestCommandsOf(prefix, async () => {
      await admin.publish(channel, head);
      expect(await dataOf(one.ask("{ top }"))).toEqual({ top: [1] });
    });
    monitor.close();
    expect(commands.map(([name]) => name)).toEqual(["publish"]);
  });

  it("notices a flush and a restart of the server, which is empty then", async () => {
    const node = await lab.standalone();
    const one = startProcess(connect(node), randomUUID());
    const flush = async (): Promise<void> => {
      const flushing = new Redis({ ...node });
      await flushing.flushall();
      flushing.disconnect();
    };
    for (const restart of [flush, async () => (await node.kill(), await node.restart())]) {
      await untilInMemory(one, "{ top }");
      const before = one.state.loads;
      await restart();
      await until("the value is loaded again", async () => (await one.ask("{ top }"), one.state.loads > before));
    }
    await untilInMemory(one, "{ top }");
    await one.cache.close();
  });

  it("never serves a value that the same process has invalidated", async () => {
    const one = startProcess(connect(), randomUUID());
    for (let nth = 1; nth <= 20; nth++) {
      await untilInMemory(one, "{ top tagged }");
      const before = one.state.loads;
      await one.cache.invalidate({ coordinate: "Query.top" });
      await one.cache.invalidateTags(["T"]);
      const { top, tagged } = (await dataOf(one.ask("{ top tagged }"))) as { top: number[]; tagged: number };
      expect(Math.min(top[0] as number, tagged)).toBeGreaterThan(before);
    }
  });

  it("learns of invalidations without messages, and catches up as soon as messages arrive again", async () => {
    const [clock, prefix] = [new FakeClock(), randomUUID()];
    // The clock of the store is another one: it opens its connection again after a while.
    const one = startProcess(connect(), prefix, { testing: { clock } });
    const other = startProcess(connect(), prefix, { memory: false });
    await untilInMemory(one, "{ tagged }");
    await until("the channel is subscribed", async () => (await subscribersOf(prefix)) === 1);
    const list = String(await admin.client("LIST"));
    for (const [, id] of list.matchAll(/^id=(\d+) .* sub=[1-9]/gm)) await admin.client("KILL", "ID", id as string);
    await other.cache.invalidateTags(["T"]);
    // No time passes, so it is not the question every half second that finds the invalidation.
    await until("the value is loaded again", async () => (await one.ask("{ tagged }"), one.state.loads === 2));
  });

  it("does not serve a value beyond its freshness", async () => {
    const one = startProcess(connect(), randomUUID());
    await untilInMemory(one, "{ brief }");
    await until("the value is loaded again", async () => (await one.ask("{ brief }"), one.state.loads === 2));
  });

  it("gives every reader a copy, and shares one frozen value of a read-only loader", async () => {
    const prefix = randomUUID();
    const cache = cacheOn(connect(), prefix, { memory: { maxStalenessMs: 2_000 } });
    const loaderOf = (name: string, readOnly: boolean) =>
      cache.loader<number, { list: number[] }, object>({
        name,
        maxAge: 60,
        readOnly,
        batch: async (ids) => ids.map((id) => ({ list: [id] })),
      });
    const [own, shared] = [loaderOf("N", false), loaderOf("S", true)];
    for (let reader = 0; reader < 5; reader++) {
      const { list } = await own({}).load(7);
      expect(list).toEqual([7]);
      list.push(8);
    }
    let value = await shared({}).load(7);
    await until("the value is shared", async () => {
      const before = value;
      value = await shared({}).load(7);
      return value === before;
    });
    expect(() => value.list.push(8)).toThrow(TypeError);
    const primed = shared({});
    expect(await primed.prime(7, { list: [9] }).load(7)).toEqual({ list: [9] });
    await cache.close();
  });

  it("learns of invalidations on a Cluster from a message, whichever node its connection leads to", async () => {
    const nodes = await sharedServer("redisCluster");
    const [clock, prefix] = [new FakeClock(), randomUUID()];
    const clusters = Array.from({ length: 4 }, () => cluster(nodes));
    const clusterAdmin = new Cluster([...nodes]);
    const ones = clusters.slice(1).map((cluster) => startProcess(cluster, prefix, { testing: { clock } }));
    const other = startProcess(clusters[0] as StoreClient, prefix, { memory: false });
    const queries = ["{ top }", "{ tagged }", "{ found }", "{ nothing }", "{ brief }"];
    for (const one of ones) for (const query of queries) await untilInMemory(one, query);
    const before = other.state.loads + ones.reduce((sum, { state }) => sum + state.loads, 0);
    await until("all have subscribed", async () => {
      const counts = await Promise.all(clusterAdmin.nodes("master").map(async (node) => subscribersAt(node, prefix)));
      return counts.reduce((sum, count) => sum + count, 0) === 3;
    });
    await other.cache.invalidate({ coordinate: "Query.top" });
    await other.cache.invalidateTags(["T"]);
    for (const one of ones) {
      await until("both are new", async () => {
        const { reads } = one.counts;
        await dataOf(one.ask("{ top tagged }"));
        return one.counts.reads > reads;
      });
      await untilInMemory(one, "{ top tagged }");
    }
    const after = other.state.loads + ones.reduce((sum, { state }) => sum + state.loads, 0);
    expect(after).toBe(before + 2);
    await Promise.all([other, ...ones].map(({ cache }) => cache.close()));
    for (const client of [...clusters, clusterAdmin]) client.disconnect();
  });

  it("can ask a Cluster for the head of the clock without a key", async () => {
    const client = cluster(await sharedServer("redisCluster"));
    await until("the client is connected", () => isConnected(client));
    const prefix = randomUUID();
    const store = redisStore({ client });
    const close = store.open(createKeySpace(prefix), { wake: () => undefined });
    const head = await store.appendClock([]);
    expect((await store.read([])).clock).toEqual(head);
    close();
    client.disconnect();
  });

  const cacheOn = (client: StoreClient, prefix: string, options: object): Cache =>
    createCache({
      defaultScope: "PUBLIC",
      store: redisStore({ client }),
      prefix,
      defaults: { jitter: 0, earlyRefresh: 0 },
      ...options,
    });
  const subscribersAt = async (client: Pick<Redis, "pubsub">, prefix: string): Promise<number> =>
    Number((await client.pubsub("NUMSUB", `${prefix}:#clock`))[1]);
  const subscribersOf = (prefix: string): Promise<number> => subscribersAt(admin, prefix);
  const connectionCount = async (): Promise<number> =>
    String(await admin.client("LIST"))
      .trim()
      .split("\n").length;
});
