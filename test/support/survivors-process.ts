/**
 * Counts what outlives warm hits on Redis, in a process of its own: the bytes per key that were allocated during the
 * hits and that no minor garbage collection has freed. Prints JSON, by kind of reader. The environment provides PORT,
 * of a Redis server.
 */
import { randomUUID } from "node:crypto";
import { type HeapProfiler, Session } from "node:inspector/promises";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { execute, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";

/** Reads the keys of one request. */
type Reader = (cache: Cache) => (ids: readonly string[]) => Promise<unknown>;

const IDS = 20_000;
const KEYS_PER_TICK = 100;
/** So many that V8 has compiled the hits, and has decided where to allocate each kind of object. */
const WARM_TICKS = 2_500;
const TICKS = 1_000;

const client = new Redis(Number(process.env.PORT), "127.0.0.1");
const session = new Session();
session.connect();

const film = (id: string) => ({ id, title: `Film ${id}`, cast: ["Actor One", "Actor Two"], plot: "x".repeat(200) });

const loader: Reader = (cache) => {
  const films = cache.loader<string, unknown, object>({
    name: "Film",
    batch: async (ids) => ids.map(film),
    maxAge: 600,
  });
  return (ids) => {
    const own = films({});
    return Promise.all(ids.map((id) => own.load(id)));
  };
};

const field: Reader = (cache) => {
  const source = makeExecutableSchema({
    typeDefs: [
      cachedTypeDefs,
      `type Query { films(ids: [ID!]!): [Film!]! }
       type Film { details: Details @cached(maxAge: 600, key: ["$source.id"]) }
       type Details { title: String, plot: String }`,
    ],
    resolvers: {
      Query: { films: (_: unknown, { ids }: { ids: string[] }) => ids.map((id) => ({ id })) },
      Film: { details: ({ id }: { id: string }) => film(id) },
    },
  });
  const schema = applyCached(source, cache);
  const document = parse("query ($ids: [ID!]!) { films(ids: $ids) { details { title plot } } }");
  return async (ids) => {
    const { errors } = await execute({ schema, document, variableValues: { ids }, contextValue: {} });
    if (errors !== undefined) throw errors[0] as Error;
  };
};

const bytesOf = ({ selfSize, children }: HeapProfiler.SamplingHeapProfileNode): number =>
  children.reduce((sum, child) => sum + bytesOf(child), selfSize);

async function survivorsOf(readerOn: Reader): Promise<number> {
  const cache = createCache({
    store: redisStore({ client }),
    prefix: `survivors-${randomUUID()}`,
    privacy: { warnOnContextReads: false },
    storage: { storeTimeoutMs: 10_000 },
  });
  const read = readerOn(cache);
  let next = 0;
  const tick = async (): Promise<void> => {
    await read(Array.from({ length: KEYS_PER_TICK }, () => String(next++ % IDS)));
  };
  for (let nth = 0; nth < WARM_TICKS; nth++) await tick();
  await session.post("HeapProfiler.startSampling", { samplingInterval: 4_096, includeObjectsCollectedByMajorGC: true });
  for (let nth = 0; nth < TICKS; nth++) await tick();
  const { profile } = await session.post("HeapProfiler.stopSampling");
  await cache.close();
  return Math.round(bytesOf(profile.head) / (TICKS * KEYS_PER_TICK));
}

await session.post("HeapProfiler.enable");
console.log(JSON.stringify({ loader: await survivorsOf(loader), field: await survivorsOf(field) }));
session.disconnect();
client.disconnect();
