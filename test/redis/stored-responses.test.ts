import { randomUUID } from "node:crypto";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { seededRandom } from "../../bench/seeded-random.js";
import { CollectedParts } from "../../src/core/responses/collected-parts.js";
import { differences, type Shared } from "../property/random-responses.js";
import { sharedServer } from "../support/shared-servers.js";

/** How many different queries are asked. */
const QUERIES = Number(process.env.PROPERTY_RUNS ?? 2) * 40;

/** Two processes with a connection each, in real time. */
async function redis(): Promise<() => Shared> {
  const address = await sharedServer("redisStandalone");
  return () => {
    const prefix = `responses-${randomUUID()}`;
    return {
      options: () => {
        const client = new Redis(address);
        onTestFinished(() => client.disconnect());
        // Their own, since replies can arrive in any order.
        return { store: redisStore({ client }), prefix, testing: { random: seededRandom(1) } };
      },
      // What expires is shown on the memory store.
      advance: () => Promise.resolve(),
      settle: async (caches) => void (await Promise.all(caches.map((cache) => cache.settled()))),
    };
  };
}

describe("stored responses on Redis", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("equal those without a cache, for random schemas, queries, callers and changes, in two processes", async () => {
    const { asked, differing, hits, first } = await differences(2027, QUERIES, undefined, await redis());
    if (process.env.PROPERTY_RUNS !== undefined) console.log({ asked, differing, hits });
    expect(first).toBe("");
    expect(differing).toBe(0);
    expect(hits).toBeGreaterThan(asked / 20);
  }, 600_000);

  it("differ if they lack the tags of what was read", async () => {
    vi.spyOn(CollectedParts.prototype, "subjects").mockReturnValue([]);
    expect((await differences(7, 120, undefined, await redis(), true)).differing).toBeGreaterThan(0);
  }, 120_000);
});
