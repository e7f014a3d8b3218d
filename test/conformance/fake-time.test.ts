import { memoryStore } from "graphql-cached";
import { memcachedStore } from "graphql-cached/memcached";
import { redisStore } from "graphql-cached/redis";
import { sqliteStore } from "graphql-cached/sqlite";
import type { Store } from "graphql-cached/store";
import { type ConformanceSubject, FakeClock, type StoreFeature, storeConformance } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { cleanups } from "../support/cleanups.js";
import { fakeServer } from "../support/fake-memcached.js";
import { FakeTimeRedis } from "../support/fake-time-redis.js";
import { RedisLab } from "../support/redis-lab.js";
import { shared } from "../support/shared-servers.js";
import { opensWith, sqliteFolder } from "../support/sqlite-files.js";

const NAMES = { wakeChannel: "wake", invalidationLog: "log", clock: "clock", settings: "" };

const lab = new RedisLab();
let client: Redis;
beforeAll(async () => {
  const { host, port } = await lab.standalone();
  client = new Redis(port, host);
});
beforeEach(() => client.flushall());
afterAll(async () => {
  await client.quit();
  await lab.stop();
});

function subject(store: Store, elapse: (ms: number) => Promise<void>): ConformanceSubject {
  const woken: ConformanceSubject["woken"] = [];
  store.open(NAMES, (key, entry, gen) => woken.push({ key, entry, gen }));
  return { store, woken, elapse };
}

/** Lets a memcached store learn its server's time, which it estimates to about 100 ms. */
async function learnTime({ store, elapse }: ConformanceSubject): Promise<ConformanceSubject> {
  for (let turn = 0; turn < 22; turn++) {
    await store.read(["any"]);
    await elapse(60);
  }
  return { store, woken: [], elapse };
}

const stores: Record<string, { readonly lacks: readonly StoreFeature[]; make(): Promise<ConformanceSubject> }> = {
  "the memory store": {
    lacks: [],
    make: async () => {
      const clock = new FakeClock();
      return subject(memoryStore({ clock }), (ms) => clock.advance(ms));
    },
  },
  "the Redis store": {
    // The fake client receives no messages.
    lacks: ["wakes"],
    make: async () => {
      const clock = new FakeClock();
      const fakeTimeClient = new FakeTimeRedis(client, clock);
      return subject(redisStore({ client: fakeTimeClient, clock }), async (ms) => {
        // The fake client counts lifetimes in steps of 500 ms.
        await clock.advance(Math.ceil(ms / 500) * 500);
        await fakeTimeClient.expire();
      });
    },
  },
  "the memcached store": {
    lacks: ["wakes", "reports", "history"],
    make: async () => {
      const clock = new FakeClock();
      const server = fakeServer(undefined, () => Math.floor(clock.now() / 1_000));
      const store = memcachedStore({ client: server.client, clock });
      return learnTime(subject(store, (ms) => clock.advance(ms + 150)));
    },
  },
  "the SQLite store": {
    lacks: [],
    make: async () => {
      const clock = new FakeClock();
      const { path, remove } = sqliteFolder();
      cleanups.push(remove);
      return subject(sqliteStore({ path, clock, database: opensWith(await shared("sqlite")) }), (ms) =>
        clock.advance(ms),
      );
    },
  },
};

for (const [name, { lacks, make }] of Object.entries(stores))
  describe(`${name} on the time of a fake clock`, () => {
    for (const { title, run } of storeConformance.filter(({ needs }) => needs === undefined || !lacks.includes(needs)))
      it(title, async () => {
        await expect(run(await make(), "conformance")).resolves.toBeUndefined();
      });
  });
