import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisLab } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movies: [Movie!]!
    warm: Int @cached(maxAge: 60)
  }
  type Movie {
    id: ID!
    title: String @cached(maxAge: 60)
    stars: Float @cached(maxAge: 60)
    seats: Int @cached(maxAge: 60)
  }
`;

describe("the reads of one tick", () => {
  const lab = new RedisLab();
  let client: Redis;
  beforeAll(async () => {
    const { host, port } = await lab.standalone();
    client = new Redis(port, host);
  });
  afterAll(async () => {
    await client.quit();
    await lab.stop();
  });

  async function calls(command: string): Promise<number> {
    const stats = await client.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  it("of a hundred warm keys of three fields are one MGET", async () => {
    const movies = Array.from({ length: 33 }, (_, index) => ({ id: index }));
    const store = redisStore({ client });
    const { ask, cache, outcomes } = memoryWorld(() => store).process(typeDefs, {
      Query: { movies: () => movies, warm: () => 1 },
      Movie: { title: () => "Alien", stars: () => 8.5, seats: () => 7 },
    });
    await dataOf(ask("{ warm movies { title stars seats } }"));
    await cache.invalidate({ coordinate: "Query.warm" });
    await dataOf(ask("{ warm }"));
    await client.config("RESETSTAT");
    await dataOf(ask("{ movies { title stars seats } warm }"));
    expect(outcomes()).toMatchObject({ hit: 100 });
    // A root field and the fields below the list are asked for in two ticks of one request.
    expect(await calls("mget")).toBeLessThanOrEqual(2);
    await client.config("RESETSTAT");
    await Promise.all([dataOf(ask("{ movies { title stars seats } }")), dataOf(ask("{ movies { seats stars } }"))]);
    expect(await calls("mget")).toBe(1);
    expect(await calls("get")).toBe(0);
    expect(await calls("evalsha")).toBe(0);
    await store.close();
  });

  it("of a loader make one round trip when warm, and two before a cold load", async () => {
    const cache = createCache({ store: redisStore({ client }), prefix: "trips" });
    const load = cache.loader<number, number>({ name: "N", maxAge: 60, batch: async (ids) => [...ids] });
    await load({}).loadMany([1, 2, 3]);
    await cache.close();
    const again = createCache({ store: redisStore({ client }), prefix: "trips" });
    await client.config("RESETSTAT");
    await again
      .loader<number, number>({ name: "N", maxAge: 60, batch: async (ids) => [...ids] })({})
      .loadMany([1, 2, 3]);
    expect([await calls("mget"), await calls("evalsha")]).toEqual([1, 0]);
    await again.close();
  });
});
