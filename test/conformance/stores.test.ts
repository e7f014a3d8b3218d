import { setTimeout as pause } from "node:timers/promises";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { type ConformanceSubject, FakeClock, storeConformance } from "graphql-cached/testing";
import { Cluster, Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import type { Store } from "../../src/store/store.js";

const names = { lane: "conformance:lane", recentTags: "conformance:recent" };

function subject(store: Store, elapse: (ms: number) => Promise<void>): ConformanceSubject {
  const woken: ConformanceSubject["woken"] = [];
  const end = store.open(names, (key, entry) => woken.push({ key, entry }));
  closing.push(async () => end());
  return { store, woken, elapse };
}

const realTime = (ms: number): Promise<void> => pause(ms);
const closing: (() => Promise<unknown>)[] = [];
afterAll(() => Promise.all(closing.map((close) => close())));

const stores: Record<string, () => ConformanceSubject> = {
  "the memory store": () => {
    const clock = new FakeClock();
    return subject(memoryStore({ clock }), (ms) => clock.advance(ms));
  },
  "the Redis store": once(() => {
    const client = new Redis(inject("redisStandalone"));
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the Redis store on a Cluster": once(() => {
    const client = new Cluster([...inject("redisCluster")]);
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
  "the Redis store behind Sentinel": once(() => {
    const { name, sentinels } = inject("redisSentinel");
    const client = new Redis({ name, sentinels: [...sentinels] });
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return subject(store, realTime);
  }),
};

function once<T>(make: () => T): () => T {
  let made: T | undefined;
  return () => {
    made ??= make();
    return made;
  };
}

for (const [name, make] of Object.entries(stores))
  describe(name, () => {
    for (const [index, { title, run }] of storeConformance.entries())
      it(title, async () => {
        await expect(run(make(), `conformance:${index}`)).resolves.toBeUndefined();
      });
  });
