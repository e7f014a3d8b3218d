import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { RedisLab, until } from "../support/redis-lab.js";
import { dataOf, memoryWorld } from "../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    first: [Movie!]!
    movies: [Movie!]!
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

  it("of a hundred warm keys of three fields, in one request or in several, are one MGET", async () => {
    // 34 + 33 + 33 keys
    const films = Array.from({ length: 34 }, (_, id) => ({ id }));
    const store = redisStore({ client });
    const { ask, events } = memoryWorld(() => store).process(typeDefs, {
      Query: { first: () => films.slice(0, 1), movies: () => films.slice(1) },
      Movie: { title: () => "Alien", stars: () => 8.5, seats: () => 7 },
    });
    const query = "{ first { title } movies { title stars seats } }";
    const hits = (): number =>
      events.filter((event) => event.name === "entry.served" && event.outcome === "hit").length;
    await dataOf(ask(query));
    // Values are stored after the answer is given.
    await until("all are stored", () => events.filter((event) => event.name === "write.finished").length === 100);
    await client.config("RESETSTAT");
    await dataOf(ask(query));
    expect(hits()).toBe(100);
    expect([await calls("mget"), await calls("get"), await calls("evalsha")]).toEqual([1, 0, 0]);
    await client.config("RESETSTAT");
    await Promise.all([dataOf(ask("{ movies { title } }")), dataOf(ask("{ movies { seats stars } }"))]);
    expect([await calls("mget"), await calls("get"), await calls("evalsha")]).toEqual([1, 0, 0]);
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
