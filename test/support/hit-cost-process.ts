/**
 * Counts what warm hits cost, in a process of its own, where nothing else runs: the functions of `src` that a
 * tick enters, and the promises it makes. Prints JSON: for each kind of reader and store, the costs of a tick
 * with one key and of a tick with a hundred. The environment provides PORT, of a Redis server.
 */
import { createHook } from "node:async_hooks";
import { randomUUID } from "node:crypto";
import { type Profiler, Session } from "node:inspector/promises";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { execute, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { systemClock } from "../../src/clock.js";
import { partsOf } from "../../src/parts.js";

/** The functions of `src` that one tick enters, and the promises that it makes, also outside of `src`. */
export interface Cost {
  readonly functions: number;
  readonly promises: number;
}

export interface TickCosts {
  readonly oneKey: Cost;
  readonly hundredKeys: Cost;
}

type Tick = () => Promise<unknown>;
type Reader = (cache: Cache) => (ids: readonly number[]) => Tick;

const IDS = Array.from({ length: 100 }, (_, index) => index);
/** The cheapest tick counts: a timer or a message may have come between. */
const TICKS = 5;
/** The promises that waiting itself makes. */
const PROMISES_OF_WAIT = 3;

/** On a clock that stands still, no read of Redis includes its time, and no near cache waits for a message. */
const clock = { ...systemClock, now: () => 1_000 };

const session = new Session();
let promises = 0;
const hook = createHook({
  init: (_id, type) => {
    if (type === "PROMISE") promises++;
  },
});

const isOurs = ({ url }: Profiler.ScriptCoverage): boolean => /\/src\/[^?]*\.ts/.test(url);

/** Returns the number of calls of functions of `src` since the last time. */
async function takeCalls(): Promise<number> {
  const { result } = await session.post("Profiler.takePreciseCoverage");
  return result
    .filter(isOurs)
    .flatMap(({ functions }) => functions.map(({ ranges }) => ranges[0]?.count ?? 0))
    .reduce((sum, count) => sum + count, 0);
}

/** Waits until nothing else makes promises: the tool that compiles TypeScript goes on when modules are loaded. */
async function whenQuiet(): Promise<void> {
  do {
    promises = 0;
    hook.enable();
    await new Promise((resolve) => setTimeout(resolve, 20));
    hook.disable();
  } while (promises > PROMISES_OF_WAIT);
}

async function costOf(tick: Tick): Promise<Cost> {
  let functions = Number.POSITIVE_INFINITY;
  let least = Number.POSITIVE_INFINITY;
  await tick();
  await whenQuiet();
  for (let nth = 0; nth < TICKS; nth++) {
    await takeCalls();
    promises = 0;
    hook.enable();
    await tick();
    hook.disable();
    least = Math.min(least, promises);
    functions = Math.min(functions, await takeCalls());
  }
  return { functions, promises: least };
}

/** The fields of one request. */
const fields: Reader = (cache) => {
  const source = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, "type Query { film(id: Int): Film @cached(maxAge: 600) } type Film { id: Int }"],
    resolvers: { Query: { film: (_: unknown, { id }: { id: number }) => ({ id }) } },
  });
  const schema = applyCached(source, cache);
  return (ids) => {
    const document = parse(`{ ${ids.map((id) => `f${id}: film(id: ${id}) { id }`).join(" ")} }`);
    return async () => {
      const { errors } = await execute({ schema, document, contextValue: {} });
      if (errors !== undefined) throw errors[0] as Error;
    };
  };
};

/** A loader, as one request uses it. */
const loader: Reader = (cache) => {
  const films = cache.loader<number, unknown, object>({
    name: "Film",
    batch: async (ids) => ids.map((id) => ({ id })),
    maxAge: 600,
  });
  return (ids) => () => {
    const own = films({});
    return Promise.all(ids.map((id) => own.load(id)));
  };
};

async function costsOn(kind: "memory" | "Redis" | "near cache", readerOn: Reader): Promise<TickCosts> {
  const client = kind === "memory" ? undefined : new Redis(Number(process.env.PORT), "127.0.0.1");
  const store: Store = client === undefined ? memoryStore() : redisStore({ client, clock });
  let reads = 0;
  const read = store.read.bind(store);
  store.read = (...args) => {
    reads++;
    return read(...args);
  };
  const cache = createCache({
    store,
    testing: { clock },
    prefix: `hit-cost-${randomUUID()}`,
    defaults: { jitter: 0, earlyRefresh: 0 },
    privacy: { warnOnContextReads: false },
    storage: { storeTimeoutMs: 10_000 },
    ...(kind === "near cache" ? { nearCache: {} } : {}),
  });
  const readerOf = readerOn(cache);
  const all = readerOf(IDS);
  const { counters } = partsOf(cache, "hit-cost-process");
  // Values are stored after they have been returned, and the near cache begins a little later.
  for (let hits = 0, readsOfTick = -1; hits < IDS.length || readsOfTick !== (kind === "near cache" ? 0 : 1); ) {
    const before = { hits: counters.total().hit, reads };
    await all();
    hits = counters.total().hit - before.hits;
    readsOfTick = reads - before.reads;
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const costs = { oneKey: await costOf(readerOf(IDS.slice(0, 1))), hundredKeys: await costOf(all) };
  await cache.close();
  client?.disconnect();
  return costs;
}

session.connect();
await session.post("Profiler.enable");
await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
const costs: Record<string, TickCosts> = {};
for (const kind of ["memory", "Redis", "near cache"] as const)
  for (const [name, reader] of Object.entries({ loader, field: fields }))
    costs[`${name}, ${kind}`] = await costsOn(kind, reader);
session.disconnect();
console.log(JSON.stringify(costs));
