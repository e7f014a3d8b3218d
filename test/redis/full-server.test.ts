import { redisStore } from "graphql-cached/redis";
import type { Grant } from "graphql-cached/store";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab } from "../support/redis-lab.js";

/** The stores that are not opened for a cache have no clock. */
const ORIGIN = { epoch: "an epoch", position: 1 };

const lab = new RedisLab();
let node: LabNode;
let admin: Redis;

beforeAll(async () => {
  node = await lab.standalone("--maxmemory-samples", "10");
  admin = new Redis(node.port, node.host);
});
afterAll(async () => {
  admin.disconnect();
  await lab.stop();
});
beforeEach(async () => {
  await admin.config("SET", "maxmemory", "0");
  await admin.flushall();
});

const startFleet = (): Fleet => new Fleet({ connect: () => new Redis(node.port, node.host), servers: () => [node] });

/** Fills the memory of the server up to its limit. */
async function fillUp(policy: string): Promise<void> {
  await admin.config("SET", "maxmemory-policy", policy);
  const used = Number(/used_memory:(\d+)/.exec(await admin.info("memory"))?.[1]);
  await admin.config("SET", "maxmemory", String(used + 1_000_000));
  const noise = admin.pipeline();
  for (let nth = 0; nth < 1_000; nth++) noise.set(`noise:${nth}`, "x".repeat(1_000), "EX", 60);
  await noise.exec();
}

/** Makes the server refuse everything that needs memory, until `maxmemory` is set again. */
async function refuseWrites(): Promise<void> {
  await admin.config("SET", "maxmemory-policy", "noeviction");
  await admin.config("SET", "maxmemory", "1");
}

describe("A Redis that evicts keys under load", () => {
  it("loads more often but serves no stale value when entries, leases and the invalidation clock are evicted", async () => {
    const fleet = startFleet();
    await fillUp("allkeys-lru");
    const ids = Array.from({ length: 40 }, (_, nth) => `id ${nth}`);
    for (let round = 0; round < 15; round++) {
      for (const id of ids) for (const nth of [0, 1]) void fleet.read(nth, id);
      const written = ids[round] as string;
      expect(await fleet.write(round % 2, written, round % 4 < 2 ? "tag" : "key")).toBe(true);
      expect(await fleet.read(0, written)).toBe(2);
      // Other programs use the server as well.
      await admin.set(`noise:${round}`, "x".repeat(50_000), "EX", 60);
    }
    await fleet.verify();
    expect(Number(/evicted_keys:(\d+)/.exec(await admin.info("stats"))?.[1])).toBeGreaterThan(0);
    for (const id of ids) expect(fleet.loads(id)).toBeLessThanOrEqual(30);
  });
});

describe("A full Redis that evicts nothing", () => {
  it("serves the stored entries of a full Redis and loads the rest from the source", async () => {
    const fleet = startFleet();
    await fleet.read(0, "kept");
    await fleet.waitForHit(1, "kept");
    await fillUp("noeviction");
    for (let nth = 0; nth < 8; nth++) expect(await fleet.read(1, `other ${nth}`)).toBe(1);
    expect(await fleet.read(0, "kept")).toBe(1);
    await fleet.verify();
    expect(fleet.loads("kept")).toBe(1);
    for (let nth = 0; nth < 8; nth++) expect(fleet.loads(`other ${nth}`)).toBe(1);
  });

  it("accepts invalidations by key and by tag on a full Redis", async () => {
    const fleet = startFleet();
    for (const by of ["key", "tag"] as const) {
      await fleet.read(0, by);
      await fleet.waitForHit(1, by);
    }
    await fillUp("noeviction");
    for (const by of ["key", "tag"] as const) {
      expect(await fleet.write(0, by, by), by).toBe(true);
      expect(await fleet.read(1, by)).toBe(2);
      expect(await fleet.read(0, by)).toBe(2);
    }
    await fleet.verify();
  });

  it("does not store values while cache.mutate runs on a full Redis", async () => {
    const fleet = startFleet();
    await fleet.read(0, "a");
    await fleet.waitForHit(1, "a");
    await fillUp("noeviction");
    const { cache } = fleet.processes[0] as (typeof fleet.processes)[0];
    const before = await cache.mutate({ tags: ["Value:a"] }, async () => {
      await fleet.read(1, "a");
      return fleet.loads("a");
    });
    expect(before).toBe(2);
    await fleet.read(1, "a");
    expect(fleet.loads("a")).toBe(3);
    await fleet.verify();
  });

  it("answers lease requests for what is stored on a full Redis, so that back-offs and values of others still count", async () => {
    const client = new Redis(node.port, node.host);
    const store = redisStore({ client });
    const times = { leaseMs: 20_000, graceMs: 40_000, patienceMs: 10_000 };
    const acquire = async (key: string): Promise<Grant> =>
      (await store.acquire([{ key, oldestPosition: 0, supersededAt: 0 }], times, ORIGIN))[0] as Grant;
    const lease = async (key: string): Promise<{ key: string; gen: string; token: string; grantedAt: number }> => {
      const grant = await acquire(key);
      if (grant.kind !== "granted") throw new Error(`expected a lease, got ${grant.kind}`);
      return { key, ...grant };
    };
    const body = new Uint8Array(4);
    const release = { holdMs: 20_000, body };
    await store.release([
      { ...(await lease("failed")), ...release, outcome: "failed" },
      { ...(await lease("uncacheable")), ...release, outcome: "uncacheable" },
    ]);
    await store.storeValues([
      { ...(await lease("value")), body, isNegative: false, loadMs: 1, freshMs: 20_000, ttlMs: 20_000 },
    ]);
    await lease("busy");
    await acquire("busy");
    await refuseWrites();
    await expect(acquire("absent")).rejects.toThrow("OOM");
    for (const kind of ["failed", "uncacheable", "value", "busy"]) expect((await acquire(kind)).kind).toBe(kind);
    client.disconnect();
  });

  it("makes values stale on a full Redis, with and without a lease, and keeps their ttl", async () => {
    const client = new Redis(node.port, node.host);
    const store = redisStore({ client });
    const times = { leaseMs: 20_000, graceMs: 40_000, patienceMs: 10_000 };
    const body = Buffer.from("the value");
    const keys = ["free", "leased", "lasting"];
    for (const key of keys) {
      const request = { key, oldestPosition: 0, supersededAt: 0 };
      const [grant] = (await store.acquire([request], times, ORIGIN)) as [Grant & { kind: "granted" }];
      const ttlMs = key === "lasting" ? undefined : 100_000;
      await store.storeValues([{ key, ...grant, body, isNegative: false, loadMs: 1, freshMs: 90_000, ttlMs }]);
      if (key === "leased") await store.acquire([{ ...request, supersededAt: Number.MAX_SAFE_INTEGER }], times, ORIGIN);
    }
    await refuseWrites();
    await store.remove(keys, { soft: true });
    const { readings } = await store.read(keys);
    for (const reading of readings)
      expect(reading).toMatchObject({ entry: { state: "value", gen: "", freshUntilAt: 0, body } });
    const [free, leased, lasting] = await Promise.all(keys.map((key) => client.pttl(key)));
    expect(free).toBeGreaterThan(50_000);
    expect(leased).toBeGreaterThan(50_000);
    expect(lasting).toBe(-1);
    client.disconnect();
  });

  it("stores values again once Redis has free memory", async () => {
    const fleet = startFleet();
    await fillUp("noeviction");
    expect(await fleet.read(0, "a")).toBe(1);
    await admin.config("SET", "maxmemory", "0");
    await fleet.waitForHit(0, "a");
    await fleet.verify();
  });
});
