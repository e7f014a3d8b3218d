import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import type { LossCheck } from "graphql-cached/store";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top: Int @cached(maxAge: 60)
    tagged: Int @cached(maxAge: 60, tags: ["T"])
    item(id: ID!): Int @cached(maxAge: 60, tags: ["Item:{$args.id}"])
    soft: Int @cached(maxAge: 60, staleWhileRevalidate: 60)
  }
`;

describe("A Redis that has lost a confirmed invalidation", () => {
  const lab = new RedisLab();
  let client: Redis;
  let other: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone();
    client = new Redis(port, host, { retryStrategy: () => 10 });
    other = new Redis(port, host);
  });
  afterAll(async () => {
    await Promise.all([client.quit(), other.quit()]);
    await lab.stop();
  });

  it("gets the invalidation again after a reconnect, and none of its restored values is served", async () => {
    let loads = 0;
    const process = memoryWorld(() => redisStore({ client })).process(typeDefs, {
      Query: { top: () => ++loads, tagged: () => ++loads },
    });
    await dataOf(process.ask("{ top tagged }"));
    await until("both are stored", () => process.events.filter(({ name }) => name === "write.finished").length === 2);
    const keys = await other.keys("*");
    const before = await Promise.all(keys.map(async (key) => ({ key, dump: await other.dumpBuffer(key) })));
    await process.cache.invalidate({ coordinate: "Query.top" });
    await process.cache.invalidateTags(["T"]);

    // As after a failover to a replica that lags behind: the old data is back, and the connection
    // is new.
    await other.flushall();
    for (const { key, dump } of before) await other.restore(key, 60_000, dump as Buffer);
    const reconnected = new Promise<void>((resolve) => client.once("ready", resolve));
    await other.client("KILL", "ID", await client.client("ID"));
    await reconnected;

    expect(await dataOf(process.ask("{ top tagged }"))).toEqual({ top: 3, tagged: 4 });
    await until("the restored entry is gone", async () => {
      const restored = before.find(({ key }) => key.includes("Query.top"));
      const dump = await other.dumpBuffer(restored?.key ?? "");
      return dump === null || !dump.equals(restored?.dump as Buffer);
    });
  });

  it("gets a lost soft invalidation again as a soft one: the restored value is served while it is refreshed", async () => {
    await other.flushall();
    let loads = 0;
    const process = memoryWorld(() => redisStore({ client })).process(typeDefs, { Query: { soft: () => ++loads } });
    await dataOf(process.ask("{ soft }"));
    const stored = (): number => process.events.filter(({ name }) => name === "write.finished").length;
    await until("it is stored", () => stored() === 1);
    const [key] = await other.keys("*Query.soft*");
    const dump = await other.dumpBuffer(key as string);
    // The server restarts with a snapshot from before the invalidation.
    const record = await Promise.all(
      [...(await other.keys("*#control*")), ...(await other.keys("*#clock*"))].map(
        async (name) => [name, (await other.dumpBuffer(name)) as Buffer] as const,
      ),
    );
    await process.cache.invalidate({ coordinate: "Query.soft" }, { soft: true });
    await other.flushall();
    for (const [name, copy] of record) await other.restore(name, 0, copy);
    await other.restore(key as string, 60_000, dump as Buffer);
    await reconnect(client, other);
    await until(
      "the restored value is stale",
      async () => !(await other.dumpBuffer(key as string)).equals(dump as Buffer),
    );
    expect(await dataOf(process.ask("{ soft }"))).toEqual({ soft: 1 });
    expect(process.outcomes().stale).toBe(1);
    await until("it is refreshed", () => stored() === 2);
  });
});

/** Breaks the connection of `client`, as an idle timeout of a proxy does, and waits for the next one. */
async function reconnect(client: Redis, admin: Redis): Promise<void> {
  const reconnected = new Promise<void>((resolve) => client.once("ready", resolve));
  await admin.client("KILL", "ID", await client.client("ID"));
  await reconnected;
}

describe("A Redis whose connections break without any loss", () => {
  const lab = new RedisLab();
  const ids = Array.from({ length: 200 }, (_, nth) => `${nth}`);
  const query = `{ ${ids.map((id) => `i${id}: item(id: "${id}")`).join(" ")} }`;
  const clients: (Redis | Cluster)[] = [];
  afterAll(async () => {
    for (const client of clients) client.disconnect();
    await lab.stop();
  });

  /** Stores all items, invalidates half of them by key and half by tag, stores them again, and counts later loads. */
  async function warmUp(client: Redis | Cluster) {
    let loads = 0;
    const process = memoryWorld(() => redisStore({ client })).process(
      typeDefs,
      {
        Query: { item: () => ++loads, soft: () => ++loads },
      },
      { storage: { storeTimeoutMs: 5_000 } },
    );
    const stored = (): number => process.events.filter(({ name }) => name === "write.finished").length;
    await dataOf(process.ask(query));
    await until("all are stored", () => stored() === ids.length);
    for (const [nth, id] of ids.entries())
      await (nth % 2 === 0
        ? process.cache.invalidate({ coordinate: "Query.item", args: { id } })
        : process.cache.invalidateTags([`Item:${id}`]));
    await dataOf(process.ask(query));
    await until("all are stored again", () => stored() === 2 * ids.length);
    return { process, loads: () => loads };
  }

  it("repeats no invalidation on one server: every warm entry stays", async () => {
    const { host, port } = await lab.standalone();
    const client = new Redis(port, host, { retryStrategy: () => 10 });
    const admin = new Redis(port, host);
    clients.push(client, admin);
    const { process, loads } = await warmUp(client);
    const before = loads();
    for (let nth = 0; nth < 3; nth++) {
      await reconnect(client, admin);
      await dataOf(process.ask(query));
      await dataOf(process.ask(query));
    }
    expect(loads()).toBe(before);
    expect(process.outcomes()).toEqual({ loaded: 2 * ids.length, hit: 6 * ids.length });
  });

  it("repeats no invalidation on a Cluster, by key or by tag: every warm entry stays", async () => {
    const nodes = await lab.cluster();
    const cluster = new Cluster(
      nodes.map(({ host, port }) => ({ host, port })),
      { slotsRefreshTimeout: 2_000 },
    );
    clients.push(cluster);
    const { process, loads } = await warmUp(cluster);
    const before = loads();
    for (const { host, port } of nodes) {
      const admin = new Redis(port, host);
      clients.push(admin);
      const added = new Promise<void>((resolve) => cluster.once("+node", () => resolve()));
      await admin.call("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes");
      await cluster.refreshSlotsCache(() => undefined);
      await added;
    }
    await until("all are read from the store", async () => {
      const hits = process.outcomes().hit ?? 0;
      await dataOf(process.ask(query));
      return (process.outcomes().hit ?? 0) - hits === ids.length;
    });
    await dataOf(process.ask(query));
    expect(loads()).toBe(before);
  });
});

describe("The markers of invalidations", () => {
  const lab = new RedisLab();
  let client: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone();
    client = new Redis(port, host);
    await client.ping();
  });
  afterAll(async () => {
    client.disconnect();
    await lab.stop();
  });

  function open() {
    const checks: LossCheck[] = [];
    const store = redisStore({ client });
    store.open(
      {
        wakeChannel: `${randomUUID()}`,
        invalidationLog: `log:${randomUUID()}`,
        clock: `clock:${randomUUID()}`,
        controlRecord: `control:${randomUUID()}`,
      },
      () => undefined,
      (check) => {
        checks.push(check);
      },
    );
    /** Returns which of `names` may be lost after a reconnect. */
    const lost = async (...names: string[]): Promise<string[]> => {
      client.emit("ready");
      const check = checks.at(-1) as LossCheck;
      await check.ended;
      return names.filter((name) => check.mayBeLost(name));
    };
    return { store, checks, lost };
  }
  const markers = (): Promise<string[]> => client.keys("log:*:marker:*");

  it("prove every confirmed invalidation while they are there, and none once one of them is gone or older", async () => {
    const { store, lost } = open();
    expect(await lost("a")).toEqual(["a"]);
    await store.invalidate(["a", "b"]);
    await store.softInvalidate(["c"]);
    await store.invalidate(["a"]);
    expect(await lost("a", "c")).toEqual([]);
    for (const marker of await markers()) {
      const [value, ttl] = [await client.get(marker), await client.pttl(marker)];
      expect(ttl).toBeGreaterThan(60_000);
      await client.set(marker, Number(value) - 1, "PX", ttl);
      expect(await lost("a", "c")).toEqual(["a", "c"]);
      await client.set(marker, value as string, "PX", ttl);
    }
    expect(await lost("a", "c")).toEqual([]);
    await client.del((await markers())[0] as string);
    expect(await lost("a")).toEqual(["a"]);
  });

  it("do not catch up by later invalidations on a server that has lost an earlier one, which is reported", async () => {
    await client.flushall();
    const { store, checks, lost } = open();
    await store.invalidate(["a"]);
    const [marker] = await markers();
    const older = await client.get(marker as string);
    await store.invalidate(["b"]);
    await client.set(marker as string, older as string);
    await store.invalidate(["c"]);
    expect(await client.get(marker as string)).toBe(older);
    expect(checks).toHaveLength(1);
    await store.invalidate(["d"]);
    expect(await lost("b")).toEqual(["b"]);
  });
});
