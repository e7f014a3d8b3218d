/**
 * Prints the cost of entity tags, as medians of interleaved rounds, in microseconds of CPU time: of the walk through a list
 * beside encoding it, and of a load and a hit through a server's schema on the memory store. Needs no Redis.
 * Run: npx tsx bench/entity-tags.ts
 */
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import { systemClock } from "../src/clock.js";
import { jsonCodec } from "../src/codec/json-codec.js";
import { EntityTypes } from "../src/directive/entity-types.js";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "../src/index.js";
import { median } from "./statistics.js";

const ROUNDS = 200;
const SIZES = [1, 10, 100, 1_000];

const typeDefs = /* GraphQL */ `
  type Query { movies(n: Int!): [Movie!] @cached(maxAge: 3600) }
  type Movie { id: ID! title: String year: Int votes: Int rating: Float director: Director }
  type Director { id: ID! name: String }
`;
const movies = (_: unknown, { n }: { n: number }) =>
  Array.from({ length: n }, (_, id) => ({
    id,
    title: `Film number ${id}`,
    year: 1950 + (id % 70),
    votes: 37 * id,
    rating: (id % 100) / 10,
    director: { id: id % 200, name: `Director number ${id % 200}` },
  }));
const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: { Query: { movies } } });

/** A server with its cache. */
interface Contender {
  readonly schema: GraphQLSchema;
  readonly cache: Cache;
}

const contender = (entityTags: boolean): Contender => {
  const cache = createCache({
    logger: { info: () => undefined, warn: () => undefined },
    defaults: { earlyRefresh: 0 },
    privacy: { warnOnContextReads: false },
  });
  return { cache, schema: applyCached(schema, cache, { entityTags }) };
};
const [off, on] = [contender(false), contender(true)];
const finder = new EntityTypes(schema, [], () => undefined, systemClock).finderOf(
  schema.getQueryType()?.getFields().movies?.type as never,
  "Query.movies",
);

/** Reads the list. Selects nothing of its items but one name, so that execution costs as little as possible. */
const ask = async ({ schema }: Contender, n: number): Promise<void> => {
  const { errors } = await graphql({ schema, source: `{ movies(n: ${n}) { __typename } }`, contextValue: {} });
  if (errors !== undefined) throw errors[0] as Error;
};
const tick = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** CPU time: other programs of the machine do not count. */
async function microseconds(run: () => unknown): Promise<number> {
  const start = process.cpuUsage();
  await run();
  const { user, system } = process.cpuUsage(start);
  return user + system;
}

/** A load until its value is stored. */
const load = async (one: Contender, n: number): Promise<number> => {
  await one.cache.invalidate({ coordinate: "Query.movies", args: { n } });
  return microseconds(async () => {
    await ask(one, n);
    for (let turn = 0; turn < 4; turn++) await tick();
  });
};

console.log("| items | walk | JSON | load, off | load, on | hit, off | hit, on |\n|--:|--:|--:|--:|--:|--:|--:|");
for (const n of SIZES) {
  const value = movies(undefined, { n });
  const times: number[][] = [[], [], [], [], [], []];
  const add = (nth: number, time: number): void => void times[nth]?.push(time);
  for (let round = 0; round < ROUNDS; round++) {
    add(0, await microseconds(() => finder?.tagsIn(value, { context: undefined, info: undefined })));
    add(1, await microseconds(() => jsonCodec.encode(value)));
    const order = round % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const);
    for (const nth of order) add(2 + nth, await load(nth === 0 ? off : on, n));
    // The first hit reads the tags of the value; the process then remembers them.
    for (const nth of order) await ask(nth === 0 ? off : on, n);
    for (const nth of order) add(4 + nth, await microseconds(() => ask(nth === 0 ? off : on, n)));
  }
  console.log(`| ${[n, ...times.map((some) => median(some).toFixed(0))].join(" | ")} |`);
}
for (const { cache } of [off, on]) await cache.close();
