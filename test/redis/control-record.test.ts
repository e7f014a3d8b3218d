import { randomUUID } from "node:crypto";
import type { CacheOptions } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keyOfCoordinate } from "../../src/directive/coordinate-key.js";
import { partsOf } from "../../src/parts.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { monitorRedis } from "../support/redis-monitor.js";
import { dataOf, memoryWorld, type Process } from "../support/world.js";

const typeDefs = "type Query { value(id: ID!): Int @cached(maxAge: 60) other(id: ID!): Int @cached(maxAge: 60) }";
const storage = { storeTimeoutMs: 2_000 };

/** Starts a process on Redis whose source returns the number of its loads so far. */
function start(client: Redis | Cluster, prefix: string, options: object = {}): Process & { loads(): number } {
  let loads = 0;
  const store = redisStore({ client });
  const process = memoryWorld(() => store).process(
    typeDefs,
    { Query: { value: () => ++loads } },
    { prefix, storage, ...options },
  );
  return Object.assign(process, { loads: () => loads });
}

/** Starts a process whose source returns its present version. */
const startOn = (
  source: { readonly version: number },
  client: Redis,
  prefix: string,
  options: CacheOptions<never> = {},
): Process =>
  memoryWorld(() => redisStore({ client })).process(
    typeDefs,
    { Query: { value: () => source.version } },
    { prefix, storage, ...options },
  );

const read = async ({ ask }: Process, id = "7"): Promise<unknown> =>
  ((await dataOf(ask(`{ value(id: "${id}") }`))) as { value: unknown }).value;

/** Reads `id` until the read is a hit. */
async function untilHit(process: Process, id = "7"): Promise<void> {
  const hits = (): number => process.outcomes().hit ?? 0;
  const before = hits();
  await until(`a hit of ${id}`, async () => (await read(process, id), hits() > before));
}

const clear = ({ cache }: Process): Promise<void> =>
  partsOf(cache, "test").invalidation.clear("hard", { via: "cache.clear" });

describe("The control record on one server", () => {
  const lab = new RedisLab();
  const clients: Redis[] = [];
  let address: { host: string; port: number };
  const connect = (): Redis => {
    const client = new Redis({ ...address });
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

  it("is created once when forty processes begin at the same time, and the key is loaded once", async () => {
    const prefix = randomUUID();
    const processes = Array.from({ length: 40 }, () => start(connect(), prefix));
    await Promise.all(clients.map((client) => client.ping()));
    expect(new Set(await Promise.all(processes.map((process) => read(process))))).toEqual(new Set([1]));
    expect(processes.reduce((sum, { loads }) => sum + loads(), 0)).toBe(1);
  });

  it("confirms the invalidations of everything, or of a whole field, of forty processes at the same time", async () => {
    const prefix = randomUUID();
    const processes = Array.from({ length: 40 }, () => start(connect(), prefix));
    await Promise.all(clients.map((client) => client.ping()));
    await Promise.all(processes.map((process) => untilHit(process)));
    for (const invalidate of [
      ({ cache }: Process) => cache.clear(),
      ({ cache }: Process) => cache.invalidate({ coordinate: "Query.value" }),
    ]) {
      const loads = (): number => processes.reduce((sum, process) => sum + process.loads(), 0);
      const before = loads();
      await Promise.all(processes.map(invalidate));
      await Promise.all(processes.map((process) => read(process)));
      expect(loads()).toBe(before + 1);
    }
  });

  it("costs a warm hit one more key in the same command, as the clock does, and nothing else", async () => {
    const prefix = randomUUID();
    const process = start(connect(), prefix);
    await untilHit(process);
    const monitor = await monitorRedis(address);
    const commands = await monitor.requestCommandsOf(prefix, () => read(process));
    monitor.close();
    const names = [expect.stringContaining(":Query.value:"), `${prefix}:#clock`, `${prefix}:#control`];
    expect(commands).toEqual([["mget", ...names]]);
  });

  it("keeps the near cache of another process when it changes, which an invalidation of everything empties", async () => {
    const prefix = randomUUID();
    const [near, other] = [start(connect(), prefix, { nearCache: {} }), start(connect(), prefix)];
    const monitor = await monitorRedis(address);
    const isNear = async (): Promise<boolean> =>
      (await monitor.requestCommandsOf(prefix, () => read(near))).length === 0;
    await until("the value is in the near cache", isNear);
    // Another release is listed: a change that concerns no entry.
    const next = start(connect(), prefix, { version: "next" });
    await read(next);
    await until("the value is served from the near cache again", isNear);
    expect(near.loads()).toBe(1);
    await clear(other);
    await until("the value is loaded again", async () => (await read(near)) === 2);
    await until("the new value is in the near cache", isNear);
    expect(near.loads()).toBe(2);
    monitor.close();
  });

  it("makes everything absent if the record is evicted alone, and lets the releases list themselves again", async () => {
    const prefix = randomUUID();
    const client = connect();
    const [old, next] = [start(client, prefix), start(client, prefix, { version: "next" })];
    for (const process of [old, next]) await untilHit(process);
    await client.del(`${prefix}:#control`, `${prefix}:#control:record`);
    for (const process of [old, next]) expect(await read(process)).toBe(2);
    for (const process of [old, next]) await untilHit(process);
    await old.cache.invalidate({ coordinate: "Query.value", args: { id: "7" } });
    for (const process of [old, next]) expect(await read(process)).toBe(3);
  });

  it("writes the version again if its key is evicted alone, and loads nothing", async () => {
    const prefix = randomUUID();
    const client = connect();
    const process = start(client, prefix);
    await untilHit(process);
    const version = await client.getBuffer(`${prefix}:#control`);
    await client.del(`${prefix}:#control`);
    expect(await read(process)).toBe(1);
    expect(await client.getBuffer(`${prefix}:#control`)).toEqual(version);
  });

  const OVERWRITES: Readonly<Record<string, (client: Redis, key: string) => Promise<unknown>>> = {
    "a list": async (client, key) => (await client.del(key), await client.lpush(key, "x")),
    "three bytes": (client, key) => client.set(key, "abc"),
    nothing: (client, key) => client.set(key, ""),
    "what looks like a version": (client, key) => client.set(key, "0123456789abcdef"),
    "a version and garbage": async (client, key) =>
      client.set(key, Buffer.concat([((await client.getBuffer(key)) as Buffer).subarray(0, 16), Buffer.from("{")])),
  };
  it.each(
    [[""], [":record"], ["", ":record"]].flatMap((suffixes) =>
      Object.keys(OVERWRITES).map((content) => [content, suffixes] as const),
    ),
  )(
    "is written again after %s was written to it (at %j), and serves nothing older than an invalidation",
    async (content, suffixes) => {
      const prefix = randomUUID();
      const client = connect();
      const source = { version: 1 };
      const join = (): Process => startOn(source, client, prefix);
      const [one, two] = [join(), join()];
      for (const process of [one, two]) await untilHit(process);
      for (const suffix of suffixes) await OVERWRITES[content]?.(client, `${prefix}:#control${suffix}`);
      for (const process of [one, two]) await untilHit(process);
      source.version = 2;
      await one.cache.invalidate({ coordinate: "Query.value" });
      expect([await read(two), await read(one)]).toEqual([2, 2]);
      for (const process of [one, two]) await untilHit(process);
      source.version = 3;
      await clear(two);
      expect([await read(one), await read(two)]).toEqual([3, 3]);
      // A process that starts later knows nothing but the record.
      for (const process of [one, two, join()]) await untilHit(process);
    },
  );

  const WHOLES = {
    "the field": ({ cache }: Process) => cache.invalidate({ coordinate: "Query.value" }),
    everything: clear,
  };
  // The server goes back without a reconnect, as behind a proxy, and another process, which has not seen the invalidation,
  // changes the earlier record.
  it.each(
    [{}, { nearCache: {} }].flatMap((options) =>
      (Object.keys(WHOLES) as (keyof typeof WHOLES)[]).map((what) => [what, options] as const),
    ),
  )(
    "lets the process that has invalidated %s serve nothing older in the read that shows that this was lost (with %j)",
    async (what, options) => {
      const prefix = randomUUID();
      const source = { version: 1 };
      const [maker, other] = [startOn(source, connect(), prefix, options), startOn(source, connect(), prefix)];
      for (const process of [maker, other]) await untilHit(process);
      const admin = connect();
      const names = await admin.keys(`${prefix}:[2#][:c]*`);
      const saved = await Promise.all(
        names.map(async (name) => [name, (await admin.getBuffer(name)) as Buffer] as const),
      );
      source.version = 2;
      await WHOLES[what](maker);
      expect(await read(maker)).toBe(2);
      for (const [name, bytes] of saved) await admin.set(name, bytes);
      await other.cache.invalidate({ coordinate: "Query.other" });
      expect(await read(maker)).toBe(2);
      await untilHit(maker);
      expect(await read(maker)).toBe(2);
    },
  );

  it("goes on after a FLUSHALL with one load per key and release", async () => {
    const prefix = randomUUID();
    const client = connect();
    const processes = [start(client, prefix), start(client, prefix)];
    for (const process of processes) await untilHit(process);
    await client.flushall();
    await Promise.all(processes.map((process) => read(process)));
    for (const process of processes) await untilHit(process);
    expect(processes.reduce((sum, { loads }) => sum + loads(), 0)).toBe(2);
  });
});

describe("The control record on a Cluster", () => {
  const lab = new RedisLab();
  let nodes: readonly LabNode[];
  const clusters: Cluster[] = [];
  const connect = (): Cluster => {
    const cluster = new Cluster(nodes.map(({ host, port }) => ({ host, port }))).on("error", () => undefined);
    clusters.push(cluster);
    return cluster;
  };
  const copiesOf = ({ cache }: Process): readonly string[] => partsOf(cache, "test").store.controlCopies();
  beforeAll(async () => {
    nodes = await lab.cluster({ replicas: 1, nodeTimeoutMs: 600 });
    for (const { host, port } of nodes) {
      const node = new Redis(port, host);
      await node.config("SET", "cluster-require-full-coverage", "no");
      node.disconnect();
    }
  });
  afterAll(async () => {
    for (const cluster of clusters) cluster.disconnect();
    await lab.stop();
  });

  it("has 64 copies, a third of them on each of three masters, all with the same version", async () => {
    const cluster = connect();
    const process = start(cluster, randomUUID());
    await untilHit(process);
    const copies = copiesOf(process);
    expect(copies).toHaveLength(64);
    const { nodeOf } = partsOf(process.cache, "test").store;
    const perNode = new Map<string, number>();
    for (const copy of copies) perNode.set(nodeOf?.(copy) ?? "", (perNode.get(nodeOf?.(copy) ?? "") ?? 0) + 1);
    expect([...perNode.values()].sort()).toEqual([21, 21, 22]);
    const versions = await Promise.all(copies.map((copy) => cluster.get(copy)));
    expect(new Set(versions).size).toBe(1);
  });

  it("writes a copy again that one node has lost", async () => {
    const cluster = connect();
    const process = start(cluster, randomUUID());
    await untilHit(process);
    const copies = copiesOf(process);
    const version = await cluster.getBuffer(copies[40] as string);
    await cluster.del(copies[40] as string);
    // A process that starts reads all copies.
    await read(start(cluster, prefixOf(process)));
    await until(
      "the copy is back",
      async () => (await cluster.getBuffer(copies[40] as string))?.equals(version ?? Buffer.alloc(0)) === true,
    );
  });

  it("serves hits of other nodes while a master is away, and confirms a clear when a replica has taken over", async () => {
    const prefix = randomUUID();
    const [process, other] = [start(connect(), prefix), start(connect(), prefix)];
    const { nodeOf } = partsOf(process.cache, "test").store;
    const lost = nodes[0] as LabNode;
    const isLost = (key: string): boolean => nodeOf?.(key) === `${lost.host}:${lost.port}`;
    const keyOf = (id: string): string =>
      keyOfCoordinate(partsOf(process.cache, "test"), { coordinate: "Query.value", args: { id } }).key.name;
    await untilHit(process);
    const kept = Array.from({ length: 20 }, (_, nth) => String(nth)).filter((id) => !isLost(keyOf(id)));
    for (const id of kept) await untilHit(other, id);
    expect([copiesOf(process).some(isLost), kept.length > 5]).toEqual([true, true]);
    const before = { hit: other.outcomes().hit ?? 0, loads: other.loads() };
    await lost.kill();
    for (const id of kept) await read(other, id);
    expect([other.outcomes().hit, other.loads()]).toEqual([before.hit + kept.length, before.loads]);
    await until("the clear is confirmed", () =>
      clear(process).then(
        () => true,
        () => false,
      ),
    );
    const loads = other.loads();
    for (const id of kept) await read(other, id);
    expect(other.loads()).toBe(loads + kept.length);
  });
});

const prefixOf = ({ cache }: Process): string => partsOf(cache, "test").keys.prefix.slice(0, -1);
