import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach } from "vitest";
import { itKeepsTheRules, subjectOf, type TestedStore } from "../support/conformance.js";
import { FakeTimeRedis } from "../support/fake-time-redis.js";
import { RedisLab } from "../support/redis-lab.js";

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

const NO_MESSAGES = "the fake client receives no messages";

const stores: Record<string, TestedStore> = {
  "the memory store": {
    make: async () => {
      const clock = new FakeClock();
      return subjectOf(memoryStore({ clock }), (ms) => clock.advance(ms));
    },
  },
  "the Redis store": {
    lacks: { wakes: NO_MESSAGES, heads: NO_MESSAGES, reports: "they expire on the time of the server" },
    make: async () => {
      const clock = new FakeClock();
      const fakeTimeClient = new FakeTimeRedis(client, clock);
      return subjectOf(redisStore({ client: fakeTimeClient, clock }), async (ms) => {
        // The fake client counts lifetimes in steps of 500 ms.
        await clock.advance(Math.ceil(ms / 500) * 500);
        await fakeTimeClient.expire();
      });
    },
  },
};

for (const [name, store] of Object.entries(stores)) itKeepsTheRules(`${name} on the time of a fake clock`, store);
