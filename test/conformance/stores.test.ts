import { setTimeout as pause } from "node:timers/promises";
import { memoryStore } from "graphql-cached";
import { memcachedStore } from "graphql-cached/memcached";
import { type NodeRedisClient, redisStore } from "graphql-cached/redis";
import { sqliteStore } from "graphql-cached/sqlite";
import { type ConformanceSubject, FakeClock, type StoreFeature, storeConformance } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { Redis as Valkey, Cluster as ValkeyCluster } from "iovalkey";
import { MemcacheClient } from "memcache-client";
import { createClient, createCluster, createSentinel } from "redis";
import * as redis5 from "redis-5";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Store, StoreNames } from "../../src/core/store/store.js";
import type { Address } from "../support/server-lab.js";
import { shared, sharedServer } from "../support/shared-servers.js";
import { opensWith, sqliteFolder } from "../support/sqlite-files.js";

/** Several stores share a server, with a prefix each. */
const namesOf = (prefix: string): StoreNames => ({
  wakeChannel: `${prefix}:wake`,
  invalidationLog: `${prefix}:log`,
  clock: `${prefix}:clock`,
  settings: `${prefix}:`,
});

let subjects = 0;

function subject(store: Store, elapse: (ms: number) => Promise<void>): ConformanceSubject {
  const woken: ConformanceSubject["woken"] = [];
  const end = store.open(namesOf(`conformance-${++subjects}`), (key, entry, gen) => woken.push({ key, entry, gen }));
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
  "the Redis store on iovalkey": once(async () => {
    const client = new Valkey(await sharedServer("redisStandalone"));
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the Redis store on a Cluster of iovalkey": once(async () => {
    const client = new ValkeyCluster([...(await sharedServer("redisCluster"))]);
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the Redis store on node-redis": once(async () => {
    const client = createClient({ socket: await sharedServer("redisStandalone") });
    return nodeRedisSubject(client);
  }),
  "the Redis store on node-redis with RESP 2": once(async () => {
    const client = createClient({ socket: await sharedServer("redisStandalone"), RESP: 2 });
    return nodeRedisSubject(client);
  }),
  "the Redis store on node-redis 5": once(async () => {
    const client = redis5.createClient({ socket: await sharedServer("redisStandalone") });
    return nodeRedisSubject(client);
  }),
  "the Redis store on a Cluster of node-redis": once(async () => {
    const nodes = await sharedServer("redisCluster");
    return nodeRedisSubject(createCluster({ rootNodes: nodes.map((socket) => ({ socket })) }));
  }),
  "the Redis store on a Cluster of node-redis 5": once(async () => {
    const nodes = await sharedServer("redisCluster");
    return nodeRedisSubject(redis5.createCluster({ rootNodes: nodes.map((socket) => ({ socket })) }));
  }),
  "the Redis store behind Sentinel on node-redis": once(async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    return nodeRedisSubject(createSentinel({ name, sentinelRootNodes: [...sentinels] }));
  }),
  "the Redis store behind Sentinel on node-redis 5": once(async () => {
    const { name, sentinels } = await sharedServer("redisSentinel");
    return nodeRedisSubject(redis5.createSentinel({ name, sentinelRootNodes: [...sentinels] }));
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

async function nodeRedisSubject(client: NodeRedisClient & { close(): Promise<unknown> }): Promise<ConformanceSubject> {
  await client.connect();
  closing.push(() => client.close());
  return subject(redisStore({ client }), realTime);
}

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

for (const [nth, [name, make]] of Object.entries(stores).entries())
  describe(name, () => {
    beforeAll(async () => learnServerTime(await make()));
    for (const [index, { title, needs, run }] of storeConformance.entries())
      it(title, async ({ skip }) => {
        const reason = needs && lacks[name]?.[needs];
        if (reason !== undefined) skip(reason);
        await expect(run(await make(), `conformance:${nth}:${index}`)).resolves.toBeUndefined();
      });
  });
