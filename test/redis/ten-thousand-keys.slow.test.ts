import { randomUUID } from "node:crypto";
import { gate } from "@graphql-cached/testing";
import { type CacheEvent, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it, onTestFinished, vi } from "vitest";
import { type LabNode, RedisLab } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";

const COUNT = 10_000;
const IDS: readonly number[] = Array.from({ length: COUNT }, (_, index) => index);

const lab = new RedisLab();
let nodes: readonly LabNode[];
beforeAll(async () => {
  nodes = await lab.cluster();
});
afterAll(() => lab.stop());

/** A loader on a client, and how its reads ended since the last call of `takeOutcomes`. */
function createNumbers(client: Redis | Cluster, tags?: (id: number) => readonly string[]) {
  const events: CacheEvent[] = [];
  let stored = 0;
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix: `ticks-${randomUUID()}`,
    // A machine that is busy with other tests may take minutes for what takes two seconds.
    leases: { leaseMs: 60_000 },
    onEvent: (event) => {
      if (event.name === "entry.served" || event.name === "resolver.bypassed") events.push(event);
      if (event.name === "write.finished" && event.isStored) stored++;
    },
  });
  onTestFinished(async () => {
    await cache.close();
    client.disconnect();
  });
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    batch: async (ids: readonly number[]) => ids,
    ...(tags === undefined ? {} : { tags }),
  });
  return {
    /** Reads all ids in one tick, in a request of its own. */
    readAll: async (): Promise<Record<string, number>> => {
      expect(await numbers({}).loadMany(IDS)).toEqual(IDS);
      const outcomes: Record<string, number> = {};
      for (const event of events.splice(0)) {
        const outcome = event.name === "entry.served" ? event.outcome : "bypassed";
        outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
      }
      return outcomes;
    },
    stored: () => stored,
  };
}

const standalone = async (): Promise<Redis> =>
  new Redis({ ...(await sharedServer("redisStandalone")), maxRetriesPerRequest: 0 });
const cluster = async (): Promise<Cluster> => {
  const client = new Cluster(nodes.map(({ host, port }) => ({ host, port })));
  await client.ping();
  return client;
};

describe("ten thousand keys in one tick", () => {
  it.each([
    ["Redis", standalone, undefined],
    ["a Cluster, with a tag each", cluster, (id: number) => [`Number:${id}`]],
  ] as const)(
    "are all loaded, stored and then hit on %s",
    async (_, connect, tags) => {
      const { readAll, stored } = createNumbers(await connect(), tags);
      expect(await readAll()).toEqual({ loaded: COUNT });
      await expect.poll(stored, { timeout: 60_000 }).toBe(COUNT);
      expect(await readAll()).toEqual({ hit: COUNT });
    },
    120_000,
  );
});

it("renews the leases of 1,001 loads in one tick, whatever the time limit of a store operation", async () => {
  const client = await standalone();
  const store = redisStore({ client });
  const renew = vi.spyOn(store, "renew");
  const failures: CacheEvent[] = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    store,
    prefix: `ticks-${randomUUID()}`,
    leases: { leaseMs: 100 },
    storage: { storeTimeoutMs: 5_001 },
    onEvent: (event) => event.name === "store.failed" && failures.push(event),
  });
  onTestFinished(async () => {
    await cache.close();
    client.disconnect();
  });
  const loads = gate();
  const numbers = cache.loader({
    name: "Number",
    maxAge: 60,
    batch: async (ids: readonly number[]) => {
      await loads.passed;
      return ids;
    },
  });
  const values = numbers({}).loadMany(IDS.slice(0, 1_001));
  await expect.poll(() => renew.mock.settledResults[0]?.type, { timeout: 30_000 }).toBe("fulfilled");
  loads.open();
  await values;
  expect(failures).toEqual([]);
});
