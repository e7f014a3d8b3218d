import { setTimeout as pause } from "node:timers/promises";
import { memoryStore } from "graphql-cached";
import { memcachedStore } from "graphql-cached/memcached";
import { redisStore } from "graphql-cached/redis";
import { sqliteStore } from "graphql-cached/sqlite";
import { type ConformanceSubject, FakeClock, type StoreFeature, storeConformance } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store } from "../../src/store/store.js";
import type { Address } from "../support/server-lab.js";
import { shared, sharedServer } from "../support/shared-servers.js";
import { opensWith, sqliteFolder } from "../support/sqlite-files.js";

const names = {
  wakeChannel: "conformance:wake",
  invalidationLog: "conformance:log",
  clock: "conformance:clock",
  settings: "conformance:",
};

function subject(store: Store, elapse: (ms: number) => Promise<void>): ConformanceSubject {
  const woken: ConformanceSubject["woken"] = [];
  const end = store.open(names, (key, entry, gen) => woken.push({ key, entry, gen }));
  closing.push(async () => end());
  return { store, woken, elapse };
}

const realTime = (ms: number): Promise<void> => pause(ms);
const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

const MEMCACHED: Partial<Record<StoreFeature, string>> = {
  wakes: "memcached has no messages; waiters poll",
  reports: "memcached cannot list what it keeps; the inspection shows one process",
  history: "memcached has no lists; each process remembers its own invalidations",
};
/** The optional features that a store lacks, and why. */
const lacks: Record<string, Partial<Record<StoreFeature, string>>> = {
  "the memcached store": MEMCACHED,
  "the memcached store on several servers": MEMCACHED,
};

const stores: Record<string, () => ConformanceSubject | Promise<ConformanceSubject>> = {
  "the memory store": () => {
    const clock = new FakeClock();
    return subject(memoryStore({ clock }), (ms) => clock.advance(ms));
  },
  "the Redis store": once(async () => {
    const client = new Redis(await sharedServer("redisStandalone"));
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the Redis store on a Cluster": once(async () => {
    const client = new Cluster([...(await sharedServer("redisCluster"))]);
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the Redis store behind Sentinel": once(async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    const client = new Redis({ name, sentinels: [...sentinels] });
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the memcached store": once(async () => {
    const [address] = await sharedServer("memcached");
    return subject(memcachedStore({ client: memcachedClient(address) }), inexactTime);
  }),
  "the memcached store on several servers": once(async () => {
    const [, b, c] = await sharedServer("memcached");
    return subject(memcachedStore({ servers: { b: memcachedClient(b), c: memcachedClient(c) } }), inexactTime);
  }),
  "the SQLite store": once(async () => {
    const { path, remove } = sqliteFolder();
    const sqlite = subject(sqliteStore({ path, database: opensWith(await shared("sqlite")) }), realTime);
    closing.push(async () => remove());
    return sqlite;
  }),
};

function memcachedClient({ host, port }: Address): MemcacheClient {
  const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
  closing.push(async () => client.shutdown());
  return client;
}

/**
 * The memcached store estimates the server's time to about 100 ms and prolongs every duration by
 * its uncertainty.
 */
const inexactTime = (ms: number): Promise<void> => pause(ms + 150);

/**
 * Lets a memcached store learn its server's time first: the durations in the cases are shorter than
 * its initial uncertainty.
 */
const learnServerTime = async ({ store }: ConformanceSubject): Promise<void> => {
  if (store.name !== "memcached") return;
  for (let turn = 0; turn < 22; turn++) {
    // Enough names for every server to hold one.
    await store.read("abcdefghij".split(""));
    await pause(60);
  }
};

function once<T>(make: () => T): () => T {
  let result: T | undefined;
  return () => {
    result ??= make();
    return result;
  };
}

for (const [name, make] of Object.entries(stores))
  describe(name, () => {
    beforeAll(async () => learnServerTime(await make()));
    for (const [index, { title, needs, run }] of storeConformance.entries())
      it(title, async ({ skip }) => {
        const reason = needs && lacks[name]?.[needs];
        if (reason !== undefined) skip(reason);
        await expect(run(await make(), `conformance:${index}`)).resolves.toBeUndefined();
      });
  });
