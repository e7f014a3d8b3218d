import { randomUUID } from "node:crypto";
import type { CacheOptions } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { keyOfCoordinate } from "../../src/core/directive/invalidation/invalidation-target.js";
import { partsOf } from "../../src/core/parts.js";
import { read, serverOfItsOwn, start, storage, typeDefs, untilHit } from "../support/counted-process.js";
import { type LabNode, RedisLab, until } from "../support/redis-lab.js";
import { memoryWorld, type Process } from "../support/world.js";

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

const clear = ({ cache }: Process): Promise<void> =>
  partsOf(cache, "test").invalidation.clear("hard", { via: "cache.clear" });

describe("Forty processes on one server", () => {
  const { clients, connect } = serverOfItsOwn();

  it("load a key once that begin at the same time", async () => {
    const prefix = randomUUID();
    const processes = Array.from({ length: 40 }, () => start(connect(), prefix));
    await Promise.all(clients.map((client) => client.ping()));
    expect(new Set(await Promise.all(processes.map((process) => read(process))))).toEqual(new Set([1]));
    expect(processes.reduce((sum, { loads }) => sum + loads(), 0)).toBe(1);
  });

  it("confirm their invalidations of everything, or of a whole field, at the same time", async () => {
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

  it("go on after a FLUSHALL with one load per key", async () => {
    const prefix = randomUUID();
    const client = connect();
    const processes = [start(client, prefix), start(client, prefix)];
    for (const process of processes) await untilHit(process);
    await client.flushall();
    await Promise.all(processes.map((process) => read(process)));
    for (const process of processes) await untilHit(process);
    expect(processes.reduce((sum, { loads }) => sum + loads(), 0)).toBe(2);
  });

  const WHOLES = {
    "the field": ({ cache }: Process) => cache.invalidate({ coordinate: "Query.value" }),
    everything: clear,
  };
  // The server goes back without a reconnect, as behind a proxy, and another process, which has not seen the invalidation,
  // appends to the earlier log.
  it.each(
    [{}, { memory: { maxStalenessMs: 2_000 } }].flatMap((options) =>
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
      const names = await admin.keys(`${prefix}:[3#][:c]*`);
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
});

describe("Invalidations of everything on a Cluster", () => {
  const lab = new RedisLab();
  let nodes: readonly LabNode[];
  const clusters: Cluster[] = [];
  const connect = (): Cluster => {
    const cluster = new Cluster(nodes.map(({ host, port }) => ({ host, port }))).on("error", () => undefined);
    clusters.push(cluster);
    return cluster;
  };
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

  it("are not confirmed while a master is away, whose replica takes over, and other nodes serve hits meanwhile", async () => {
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
    expect(kept.length).toBeGreaterThan(5);
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
