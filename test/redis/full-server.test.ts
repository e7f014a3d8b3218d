import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { Fleet } from "../support/fleet.js";
import { type LabNode, RedisLab } from "../support/redis-lab.js";

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

const fleet = (): Fleet => new Fleet({ connect: () => new Redis(node.port, node.host), servers: () => [node] });

/** Leaves no room for anything but what is there. */
async function fillUp(policy: string): Promise<void> {
  await admin.config("SET", "maxmemory-policy", policy);
  const used = Number(/used_memory:(\d+)/.exec(await admin.info("memory"))?.[1]);
  await admin.config("SET", "maxmemory", String(used + 1_000_000));
  const noise = admin.pipeline();
  for (let nth = 0; nth < 1_000; nth++) noise.set(`noise:${nth}`, "x".repeat(1_000), "EX", 60);
  await noise.exec();
}

describe("a Redis that evicts under load", () => {
  it("costs loads and nothing else: entries, leases, tagVersions and the record may go at any time", async () => {
    const site = fleet();
    await fillUp("allkeys-lru");
    const ids = Array.from({ length: 40 }, (_, nth) => `id ${nth}`);
    for (let round = 0; round < 15; round++) {
      for (const id of ids) for (const nth of [0, 1]) void site.read(nth, id);
      const written = ids[round] as string;
      expect(await site.write(round % 2, written, round % 4 < 2 ? "tag" : "key")).toBe(true);
      expect(await site.read(0, written)).toBe(2);
      // Others use the server too.
      await admin.set(`noise:${round}`, "x".repeat(50_000), "EX", 60);
    }
    await site.ended();
    expect(Number(/evicted_keys:(\d+)/.exec(await admin.info("stats"))?.[1])).toBeGreaterThan(0);
    for (const id of ids) expect(site.loads(id)).toBeLessThanOrEqual(30);
  });
});

describe("a Redis that is full and evicts nothing", () => {
  it("goes on responder what it has, and what it has no room for is loaded by who asks", async () => {
    const site = fleet();
    await site.read(0, "kept");
    await site.recovered(1, "kept");
    await fillUp("noeviction");
    for (let nth = 0; nth < 8; nth++) expect(await site.read(1, `other ${nth}`)).toBe(1);
    expect(await site.read(0, "kept")).toBe(1);
    await site.ended();
    expect(site.loads("kept")).toBe(1);
    for (let nth = 0; nth < 8; nth++) expect(site.loads(`other ${nth}`)).toBe(1);
  });

  it("takes an invalidation, of a key as of a tag: what it deletes makes room for what it notes", async () => {
    const site = fleet();
    for (const by of ["key", "tag"] as const) {
      await site.read(0, by);
      await site.recovered(1, by);
    }
    await fillUp("noeviction");
    for (const by of ["key", "tag"] as const) {
      expect(await site.write(0, by, by), by).toBe(true);
      expect(await site.read(1, by)).toBe(2);
      expect(await site.read(0, by)).toBe(2);
    }
    await site.ended();
  });

  it("is written to in a bracket as always", async () => {
    const site = fleet();
    await site.read(0, "a");
    await site.recovered(1, "a");
    await fillUp("noeviction");
    const { cache } = site.processes[0] as (typeof site.processes)[0];
    const before = await cache.mutate({ tags: ["Value:a"] }, async () => {
      await site.read(1, "a");
      return site.loads("a");
    });
    expect(before).toBe(2);
    await site.read(1, "a");
    expect(site.loads("a")).toBe(3);
    await site.ended();
  });

  it("is used again once it has room", async () => {
    const site = fleet();
    await fillUp("noeviction");
    expect(await site.read(0, "a")).toBe(1);
    await admin.config("SET", "maxmemory", "0");
    await site.recovered(0, "a");
    await site.ended();
  });
});
