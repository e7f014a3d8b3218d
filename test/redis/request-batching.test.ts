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

describe("Request batching", () => {
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

  /** Returns how often the server has run a command since the last reset. */
  async function callsOf(command: string): Promise<number> {
    const stats = await client.info("commandstats");
    return Number(new RegExp(`cmdstat_${command}:calls=(\\d+)`).exec(stats)?.[1] ?? 0);
  }

  it("reads 600 keys with 300 tags with three MGETs, so that the server replies to the first while the others are sent", async () => {
    const ids = Array.from({ length: 600 }, (_, id) => id);
    const outcomes: string[] = [];
    let stored = 0;
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: redisStore({ client }),
      memory: false,
      prefix: "many",
      onEvent: (event) => {
        if (event.name === "entry.served") outcomes.push(event.outcome);
        if (event.name === "write.finished" && event.isStored) stored++;
      },
    });
    const tags = (id: number): string[] => [`Film:${id % 300}`];
    const films = cache.loader({ name: "Film", maxAge: 60, tags, batch: async (ids: readonly number[]) => ids });
    expect(await films({}).loadMany(ids)).toEqual(ids);
    await until("all are stored", () => stored === 600);
    // The first reads of a process also read the settings.
    await films({}).load(1);
    outcomes.length = 0;
    await client.config("RESETSTAT");
    expect(await films({}).loadMany(ids)).toEqual(ids);
    expect([new Set(outcomes), outcomes.length]).toEqual([new Set(["hit"]), 600]);
    expect([await callsOf("mget"), await callsOf("get"), await callsOf("evalsha")]).toEqual([3, 0, 0]);
    // The last of the tags.
    await cache.invalidateTags(["Film:299"]);
    outcomes.length = 0;
    expect(await films({}).loadMany(ids)).toEqual(ids);
    expect(outcomes.filter((outcome) => outcome === "loaded")).toHaveLength(2);
    await cache.close();
  });

  it("reads 100 warm keys of three fields with one MGET, in one request or in several", async () => {
    // 34 + 33 + 33 keys
    const movies = Array.from({ length: 34 }, (_, id) => ({ id }));
    const store = redisStore({ client });
    const { ask, events } = memoryWorld(() => store).process(typeDefs, {
      Query: { first: () => movies.slice(0, 1), movies: () => movies.slice(1) },
      Movie: { title: () => "Alien", stars: () => 8.5, seats: () => 7 },
    });
    const query = "{ first { title } movies { title stars seats } }";
    const hits = (): number =>
      events.filter((event) => event.name === "entry.served" && event.outcome === "hit").length;
    await dataOf(ask(query));
    // Values are stored after the response.
    await until("all are stored", () => events.filter((event) => event.name === "write.finished").length === 100);
    // The first reads of a process also read the settings.
    await dataOf(ask("{ first { title } }"));
    await client.config("RESETSTAT");
    await dataOf(ask(query));
    expect(hits()).toBe(101);
    expect([await callsOf("mget"), await callsOf("get"), await callsOf("evalsha")]).toEqual([1, 0, 0]);
    await client.config("RESETSTAT");
    await Promise.all([dataOf(ask("{ movies { title } }")), dataOf(ask("{ movies { seats stars } }"))]);
    expect([await callsOf("mget"), await callsOf("get"), await callsOf("evalsha")]).toEqual([1, 0, 0]);
  });

  it("reads the warm keys of a loader in one round trip", async () => {
    const cache = createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: "round-trips" });
    const load = cache.loader<number, number>({ name: "N", maxAge: 60, batch: async (ids) => [...ids] });
    await load({}).loadMany([1, 2, 3]);
    await cache.close();
    const secondCache = createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: "round-trips" });
    const second = secondCache.loader<number, number>({ name: "N", maxAge: 60, batch: async (ids) => [...ids] });
    // The first read of a process also reads the settings.
    await second({}).load(1);
    await client.config("RESETSTAT");
    await second({}).loadMany([1, 2, 3]);
    expect([await callsOf("mget"), await callsOf("evalsha")]).toEqual([1, 0]);
    await secondCache.close();
  });
});
