import { randomUUID } from "node:crypto";
import { type Cache, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
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

/** Starts a process with a near cache. `counts.reads` counts the reads that reach the store. */
function startProcess(client: Redis | Cluster, prefix: string, options: object = {}) {
  const state = { loads: 0 };
  const load = (): number => ++state.loads;
  const store = redisStore({ client });
  const counts = { reads: 0 };
  const countingStore = new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        if (property === "read") counts.reads++;
        return value.apply(target, args) as unknown;
      };
    },
  });
  const process = memoryWorld(() => countingStore).process(
    typeDefs,
    { Query: { top: () => [load()], tagged: load, found: load, nothing: () => (state.loads++, null), brief: load } },
    { prefix, nearCache: {}, ...options },
  );
  return { state, counts, ...process };
}

/** Repeats a query until it is answered without reading the store. */
async function untilNear({ ask, counts }: ReturnType<typeof startProcess>, query: string): Promise<void> {
  await until(`${query} is served from the near cache`, async () => {
    const before = counts.reads;
    await dataOf(ask(query));
    return counts.reads === before;
  });
}

describe("The near cache", () => {
  const lab = new RedisLab();
  const clients: Redis[] = [];
  let address: { host: string; port: number };
  const connect = (): Redis => {
    const client = new Redis({ ...address, retryStrategy: () => 20 });
    clients.push(client);
    return client;
  };
  beforeAll(async () => {
    address = await lab.standalone();
  });
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });

  it("hears of changes of entries, but not of what processes leave for the inspection", async () => {
    const client = connect();
    const store = redisStore({ client });
    const prefix = randomUUID();
    const names = {
      wakeChannel: `${prefix}:wake`,
      invalidationLog: `${prefix}:#log`,
      clock: `${prefix}:#clock`,
      controlRecord: `${prefix}:#control`,
    };
    const close = store.open(names, () => undefined);
    const changed: (string | undefined)[] = [];
    const state = { hasBegun: false };
    const listener = {
      changed: (name: string | undefined) => void changed.push(name),
      began: () => {
        state.hasBegun = true;
      },
      confirmed: () => undefined,
      lost: () => undefined,
    };
    const stop = store.follow?.(prefix, listener);
    await until("changes are reported", () => state.hasBegun);
    changed.length = 0;
    await store.appendHistory?.(Buffer.from("an invalidation"), { maxBytes: 1_000, keepMs: 60_000 });
    const part = { name: "statistics", bytes: Buffer.from("a report"), keepMs: 60_000 };
    await store.reports?.write({ process: "process-1", sequence: 1, parts: [part] });
    await client.set(`${prefix}:entry`, "changed");
    await until("the entry is reported", () => changed.includes(`${prefix}:entry`));
    expect(changed).toEqual([`${prefix}:entry`]);
    stop?.();
    close();
  });

  it("serves values from the memory of the process and counts them as hits", async () => {
    const one = startProcess(connect(), randomUUID());
    for (const query of ["{ top }", "{ tagged }", "{ found }", "{ nothing }"]) await untilNear(one, query);
    const { reads } = one.counts;
    const before = one.outcomes().hit ?? 0;
    expect(await dataOf(one.ask("{ top nothing }"))).toEqual({ top: [1], nothing: null });
    expect(one.counts.reads).toBe(reads);
    expect(one.outcomes().hit).toBe(before + 2);
  });

  it("drops values that another process invalidates by key, by tag or by a tag of the result", async () => {
    const prefix = randomUUID();
    const [one, other] = [startProcess(connect(), prefix), startProcess(connect(), prefix)];
    const query = "{ top tagged found }";
    await untilNear(one, query);
    const first = (await dataOf(one.ask(query))) as { found: number };
    await other.cache.invalidate({ coordinate: "Query.top" });
    await other.cache.invalidateTags(["T", `R:${first.found}`]);
    await until("all three are new", async () => {
      const now = (await dataOf(one.ask(query))) as { top: number[]; tagged: number; found: number };
      return now.top[0] !== 1 && now.tagged > 3 && now.found > 3;
    });
  });

  it("never serves a value that the same process has invalidated", async () => {
    const one = startProcess(connect(), randomUUID());
    for (let nth = 1; nth <= 20; nth++) {
      await untilNear(one, "{ top tagged }");
      const before = one.state.loads;
      await one.cache.invalidate({ coordinate: "Query.top" });
      await one.cache.invalidateTags(["T"]);
      const { top, tagged } = (await dataOf(one.ask("{ top tagged }"))) as { top: number[]; tagged: number };
      expect(Math.min(top[0] as number, tagged)).toBeGreaterThan(before);
    }
  });

  it("empties the near cache when its connection breaks and uses it again after a reconnect", async () => {
    const client = connect();
    const one = startProcess(client, randomUUID());
    await untilNear(one, "{ top }");
    const admin = connect();
    const list = String(await admin.client("LIST"));
    const trackingIds = [...list.matchAll(/^id=(\d+) .*sub=1 .*redir=[1-9]/gm)].map(([, id]) => id as string);
    expect(trackingIds).not.toEqual([]);
    for (const id of trackingIds) await admin.client("KILL", "ID", id);
    await until("the store is read again", async () => {
      const { reads } = one.counts;
      await dataOf(one.ask("{ top }"));
      return one.counts.reads > reads;
    });
    await untilNear(one, "{ top }");
  });

  it("does not serve a value beyond its freshness", async () => {
    const one = startProcess(connect(), randomUUID());
    await untilNear(one, "{ brief }");
    await until("the value is loaded again", async () => (await one.ask("{ brief }"), one.state.loads === 2));
  });

  it("freezes shared values, so that changing one throws", async () => {
    const prefix = randomUUID();
    const cache = cacheOn(connect(), prefix, { nearCache: { freeze: true } });
    const loader = cache.loader<number, { list: number[] }, object>({
      name: "N",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => ({ list: [id] })),
    });
    let value = await loader({}).load(7);
    await until("the value is frozen", async () => {
      value = await loader({}).load(7);
      return Object.isFrozen(value);
    });
    expect(() => value.list.push(8)).toThrow(TypeError);
    expect(await loader({}).load(7)).toBe(value);
    const primed = loader({});
    expect(await primed.prime(7, { list: [9] }).load(7)).toEqual({ list: [9] });
    await cache.close();
  });

  it("tracks changes on every master of a Cluster", async () => {
    const nodes = await sharedServer("redisCluster");
    const clusters = [new Cluster([...nodes]), new Cluster([...nodes])] as const;
    const prefix = randomUUID();
    const one = startProcess(clusters[0], prefix);
    const other = startProcess(clusters[1], prefix);
    const queries = ["{ top }", "{ tagged }", "{ found }", "{ nothing }", "{ brief }"];
    for (const query of queries) await untilNear(one, query);
    await other.cache.invalidate({ coordinate: "Query.top" });
    await other.cache.invalidateTags(["T"]);
    await until("both are new", async () => {
      const { top, tagged } = (await dataOf(one.ask("{ top tagged }"))) as { top: number[]; tagged: number };
      return top[0] !== 1 && tagged !== 2;
    });
    await Promise.all([one.cache.close(), other.cache.close()]);
    for (const cluster of clusters) cluster.disconnect();
  });

  it("refuses a store that does not report changes, and invalid options", () => {
    expect(() => createCache({ store: memoryStore(), nearCache: {} })).toThrow(
      "createCache: `nearCache`: expected a store that reports changes, such as redisStore(), got the memory store; remove `nearCache`",
    );
    expect(() => createCache({ nearCache: { maxByte: 7 } as object })).toThrow(
      "`nearCache`: expected an object with the optional properties maxBytes and maxEntries (integers of at least 1) and freeze (true or false), got an object",
    );
  });

  const cacheOn = (client: Redis, prefix: string, options: object): Cache =>
    createCache({ store: redisStore({ client }), prefix, defaults: { jitter: 0, earlyRefresh: 0 }, ...options });
});
