import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import fc from "fast-check";
import { type ExecutionResult, execute, type GraphQLSchema, parse, validate } from "graphql";
import { applyCached, type Cache, type CacheOptions, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { FakeClock, settle } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import { drawFrom } from "./draw.js";
import { randomResolvers, THING_TYPE } from "./random-data.js";
import { type RandomQuery, randomQuery } from "./random-query.js";
import { randomSchema } from "./random-schema.js";

const RUNS = Number(process.env.PROPERTY_RUNS ?? 40);
const quiet = { info: () => undefined, warn: () => undefined };

/** What an answer says, whatever the order in which errors came. Below a position that an error made null, which error was first is a matter of time. */
function said({ data, errors = [] }: ExecutionResult): unknown {
  const told = errors.map((error) => {
    const path = error.path ?? [];
    let found: unknown = data;
    let depth = 0;
    while (depth < path.length && found !== null && found !== undefined)
      found = (found as Record<string, unknown>)[path[depth++] as string];
    const isBelow = depth < path.length;
    const { message, locations, extensions } = error;
    return JSON.stringify(isBelow ? ["null at", path.slice(0, depth)] : [message, path, locations, extensions]);
  });
  const isOwn = (one: string): boolean => !one.startsWith('["null at"');
  return {
    data: JSON.parse(JSON.stringify(data ?? null)),
    errors: [...told.filter(isOwn), ...new Set(told.filter((one) => !isOwn(one)))].sort(),
  };
}

/** A random schema with its plain execution, and how queries are made for it. */
function subject(gen: fc.GeneratorValue) {
  const draw = drawFrom(gen);
  const random = randomSchema(draw);
  const resolvers = randomResolvers(random) as IResolvers;
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, random.typeDefs], resolvers });
  const queries = Array.from({ length: 1 + draw.int(2) }, () => randomQuery(random, draw));
  const hasTypes = draw.chance(85);
  const contextValue = (): object => ({ locale: "en", user: "u" });
  const ask = async (of: GraphQLSchema, { source, variables }: RandomQuery): Promise<unknown> => {
    const document = parse(source);
    expect(validate(of, document), source).toEqual([]);
    const args = { schema: of, document, variableValues: variables, contextValue: contextValue() };
    return said(await execute(args));
  };
  const options: CacheOptions = {
    logger: quiet,
    identify: (context) => (context as { user: string }).user,
    ...(hasTypes ? { types: THING_TYPE } : {}),
  };
  return { draw, schema, queries, options, ask, typeDefs: random.typeDefs };
}

/** Lets a clock that stands still go on while something waits for it. */
async function running<T>(clock: FakeClock, answer: Promise<T>): Promise<T> {
  let isDone = false;
  const done = answer.finally(() => {
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
    const met: Record<string, number> = {};
    await fc.assert(
      fc.asyncProperty(fc.gen(), async (gen) => {
        const { draw, schema, queries, options, ask, typeDefs } = subject(gen);
        const expected = await Promise.all(queries.map((query) => ask(schema, query)));
        const clock = new FakeClock();
        const store = memoryStore({ clock });
        const caches: Cache[] = [];
        const onEvent: CacheOptions["onEvent"] = (event) => {
          const what = event.name === "entry.served" ? event.outcome : event.name;
          met[what] = (met[what] ?? 0) + 1;
        };
        const server = (): GraphQLSchema => {
          const random = (): number => draw.int(99) / 100;
          const cache = createCache({ ...options, store, clock, random, onEvent });
          caches.push(cache);
          return applyCached(schema, cache);
        };
        const [one, two] = [server(), server()];
        const stages: readonly [string, GraphQLSchema, number][] = [
          ["cold", one, 0],
          ["warm", one, 0],
          ["warm elsewhere", two, 0],
          ["later", one, draw.int(40) * 1_000],
          ["later still", two, draw.int(90) * 1_000],
          ["after that", two, 0],
          ["in the end", one, 200_000],
        ];
        for (const [stage, applied, passes] of stages) {
          await clock.advance(passes);
          const answers = Promise.all(queries.map((query) => ask(applied, query)));
          const hint = `${stage}\n${typeDefs}\n${JSON.stringify(queries)}`;
          expect(await running(clock, answers), hint).toEqual(expected);
          await settle();
        }
        await running(clock, Promise.all(caches.map((cache) => cache.close())));
      }),
      { numRuns: RUNS, endOnFailure: process.env.PROPERTY_SHRINK === undefined },
    );
    if (process.env.PROPERTY_RUNS !== undefined) console.log(met);
    // Nothing would be shown by answers that no cache had a part in.
    for (const outcome of ["hit", "stale", "loaded", "coalesced"])
      expect(met[outcome], outcome).toBeGreaterThan(RUNS / 10);
  }, 120_000);
});

describe("a response with the cache on Redis", () => {
  const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
  afterAll(() => client.quit());

  it("equals the response without it, cold, warm and warm in another process", async () => {
    let run = 0;
    await fc.assert(
      fc.asyncProperty(fc.gen(), async (gen) => {
        const { schema, queries, options, ask, typeDefs } = subject(gen);
        const expected = await Promise.all(queries.map((query) => ask(schema, query)));
        const prefix = `same-${process.pid}-${run++}`;
        const make = (): Cache =>
          createCache({ ...options, prefix, store: redisStore({ client }), storeTimeoutMs: 5_000 });
        const caches = [make(), make()];
        const [one, two] = caches.map((cache) => applyCached(schema, cache)) as [GraphQLSchema, GraphQLSchema];
        for (const applied of [one, one, two, one]) {
          const answers = await Promise.all(queries.map((query) => ask(applied, query)));
          expect(answers, `${typeDefs}\n${JSON.stringify(queries)}`).toEqual(expected);
        }
        await Promise.all(caches.map((cache) => cache.close()));
      }),
      { numRuns: Math.ceil(RUNS / 8), endOnFailure: true },
    );
  }, 120_000);
});
