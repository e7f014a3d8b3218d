import { randomUUID } from "node:crypto";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { seededRandom } from "../../bench/seeded-random.js";
import { CollectedParts } from "../../src/core/collected-parts.js";
import { differences, type Shared } from "../property/random-responses.js";
import { until } from "../support/redis-lab.js";
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

  it("are never taken from the near cache while they are observed", async () => {
    const client = new Redis(await sharedServer("redisStandalone"));
    onTestFinished(() => client.disconnect());
    let [executions, reads] = [0, 0];
    const observed: string[] = [];
    const store = redisStore({ client });
    const { read } = store;
    store.read = (...names) => (reads++, read.apply(store, names));
    const cache = createCache({
      store,
      prefix: `responses-${randomUUID()}`,
      nearCache: {},
      logger: { info: () => undefined, warn: () => undefined },
      onEvent: (event) => event.name === "read.observed" && observed.push(`${event.outcome} ${event.comparison}`),
    });
    onTestFinished(() => cache.close());
    const typeDefs = "type Query { movie: Int @cached(maxAge: 600) }";
    const resolvers = { Query: { movie: () => ++executions } };
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
    const document = parse("{ movie }");
    const ask = async (): Promise<unknown> => (await cache.execute({ schema, document, contextValue: {} })).data;
    await until("the response is served from the near cache", async () => {
      const before = reads;
      await ask();
      await cache.settled();
      return reads === before;
    });
    await cache.setMode("observe", { coordinate: "responses" });
    // The part is a hit, too, so that only the reads show that the response was looked up.
    const before = reads;
    expect(await ask()).toEqual({ movie: 1 });
    expect(observed).toEqual(["hit same"]);
    expect(reads).toBeGreaterThan(before);
  });

  it("differ if they lack the tags of what was read", async () => {
    vi.spyOn(CollectedParts.prototype, "subjects").mockReturnValue([]);
    expect((await differences(7, 120, undefined, await redis(), true)).differing).toBeGreaterThan(0);
  }, 120_000);
});
