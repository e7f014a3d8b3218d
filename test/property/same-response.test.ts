import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import fc from "fast-check";
import { type ExecutionResult, execute, type GraphQLSchema, parse, validate } from "graphql";
import { applyCached, type Cache, type CacheOptions, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { sharedServer } from "../support/shared-servers.js";
import { drawFrom } from "./draw.js";
import { randomResolvers, THING_TYPE } from "./random-data.js";
import { type RandomQuery, randomQuery } from "./random-query.js";
import { randomSchema } from "./random-schema.js";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 40);
const quiet = { info: () => undefined, warn: () => undefined };

/**
 * Returns a response in comparable form, regardless of the order of errors. Which error is first
 * below a position that an error made null depends on timing, so such errors are reduced to that
 * position.
 */
function comparable({ data, errors = [] }: ExecutionResult): unknown {
  const errorTexts = errors.map((error) => {
    const path = error.path ?? [];
    let value: unknown = data;
    let depth = 0;
    while (depth < path.length && value !== null && value !== undefined)
      value = (value as Record<string, unknown>)[path[depth++] as string];
    const isBelow = depth < path.length;
    const { message, locations, extensions } = error;
    return JSON.stringify(isBelow ? ["null at", path.slice(0, depth)] : [message, path, locations, extensions]);
  });
  const isExact = (text: string): boolean => !text.startsWith('["null at"');
  return {
    data: JSON.parse(JSON.stringify(data ?? null)),
    errors: [...errorTexts.filter(isExact), ...new Set(errorTexts.filter((text) => !isExact(text)))].sort(),
  };
}

/**
 * Returns a random schema without the cache, random queries for it, and a function that executes a
 * query.
 */
function randomCase(gen: fc.GeneratorValue) {
  const draw = drawFrom(gen);
  const random = randomSchema(draw);
  const resolvers = randomResolvers(random) as IResolvers;
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, random.typeDefs], resolvers });
  const queries = Array.from({ length: 1 + draw.int(2) }, () => randomQuery(random, draw));
  const hasTypes = draw.chance(85);
  const contextValue = (): object => ({ locale: "en", user: "u" });
  const run = async (target: GraphQLSchema, { source, variables }: RandomQuery): Promise<unknown> => {
    const document = parse(source);
    expect(validate(target, document), source).toEqual([]);
    const args = { schema: target, document, variableValues: variables, contextValue: contextValue() };
    return comparable(await execute(args));
  };
  const options: CacheOptions = {
    logger: quiet,
    identify: (context) => (context as { user: string }).user,
    ...(hasTypes ? { types: THING_TYPE } : {}),
  };
  return { draw, schema, queries, options, run, typeDefs: random.typeDefs };
}

/** Advances a fake clock until `result` settles. */
async function advanceUntil<T>(clock: FakeClock, result: Promise<T>): Promise<T> {
  let isDone = false;
  const done = result.finally(() => {
    isDone = true;
  });
  for (let turn = 0; !isDone && turn < 1_000; turn++) {
    await settle();
    if (!isDone && turn > 2) await clock.advance(20);
  }
  return done;
}

describe("a response with the cache", () => {
  it("equals the response without it, cold, warm and stale, for random schemas, data and queries", async () => {
    const counts: Record<string, number> = {};
    await fc.assert(
      fc.asyncProperty(fc.gen(), async (gen) => {
        const { draw, schema, queries, options, run, typeDefs } = randomCase(gen);
        const expected = await Promise.all(queries.map((query) => run(schema, query)));
        const clock = new FakeClock();
        const store = memoryStore({ clock });
        const caches: Cache[] = [];
        const onEvent: CacheOptions["onEvent"] = (event) => {
          const what = event.name === "entry.served" ? event.outcome : event.name;
          counts[what] = (counts[what] ?? 0) + 1;
        };
        const server = (): GraphQLSchema => {
          const random = (): number => draw.int(99) / 100;
          const cache = createCache({ defaultScope: "PUBLIC", ...options, store, testing: { clock, random }, onEvent });
          caches.push(cache);
          return applyCached(schema, cache);
        };
        const [one, two] = [server(), server()];
        const stages: readonly [string, GraphQLSchema, number][] = [
          ["cold", one, 0],
          ["warm", one, 0],
          ["warm in the other process", two, 0],
          ["later", one, draw.int(40) * 1_000],
          ["even later", two, draw.int(90) * 1_000],
          ["after that", two, 0],
          ["after everything expired", one, 200_000],
        ];
        for (const [stage, applied, elapsedMs] of stages) {
          await clock.advance(elapsedMs);
          const responses = Promise.all(queries.map((query) => run(applied, query)));
          const hint = `${stage}\n${typeDefs}\n${JSON.stringify(queries)}`;
          expect(await advanceUntil(clock, responses), hint).toEqual(expected);
          await settle();
        }
        await advanceUntil(clock, Promise.all(caches.map((cache) => cache.close())));
      }),
      { numRuns: RUNS, endOnFailure: process.env.PROPERTY_SHRINK === undefined },
    );
    if (process.env.PROPERTY_RUNS !== undefined) console.log(counts);
    // Responses that the cache had no part in would prove nothing.
    for (const outcome of ["hit", "stale", "loaded", "coalesced"])
      expect(counts[outcome], outcome).toBeGreaterThan(RUNS / 10);
  }, 120_000);
});

describe("a response with the cache on Redis", async () => {
  const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
  afterAll(() => client.quit());

  it("equals the response without it, cold, warm and warm in another process", async () => {
    let runs = 0;
    await fc.assert(
      fc.asyncProperty(fc.gen(), async (gen) => {
        const { schema, queries, options, run, typeDefs } = randomCase(gen);
        const expected = await Promise.all(queries.map((query) => run(schema, query)));
        const prefix = `same-${process.pid}-${runs++}`;
        const make = (): Cache =>
          createCache({
            defaultScope: "PUBLIC",
            ...options,
            prefix,
            store: redisStore({ client }),
            storage: { storeTimeoutMs: 5_000 },
          });
        const caches = [make(), make()];
        const [one, two] = caches.map((cache) => applyCached(schema, cache)) as [GraphQLSchema, GraphQLSchema];
        for (const applied of [one, one, two, one]) {
          const responses = await Promise.all(queries.map((query) => run(applied, query)));
          expect(responses, `${typeDefs}\n${JSON.stringify(queries)}`).toEqual(expected);
        }
        await Promise.all(caches.map((cache) => cache.close()));
      }),
      { numRuns: Math.ceil(RUNS / 8), endOnFailure: true },
    );
  }, 120_000);
});
