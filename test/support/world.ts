import { randomUUID } from "node:crypto";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { type ExecutionResult, type GraphQLSchema, graphql } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
  type Store,
} from "graphql-cached";
import { memcachedStore } from "graphql-cached/memcached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";
import { afterEach, describe, expect, inject, vi } from "vitest";

/** One process: a cache with a schema, and what its cache told. */
export interface Process {
  readonly cache: Cache;
  readonly schema: GraphQLSchema;
  readonly events: CacheEvent[];
  ask(source: string, contextValue?: unknown, variableValues?: Record<string, unknown>): Promise<ExecutionResult>;
  /** How many reads ended so, and nothing else happened to be counted. */
  outcomes(): Record<string, number>;
}

export interface World {
  /** A process of its own on the world's one store. */
  process(typeDefs: string, resolvers: object, options?: CacheOptions<never>): Process;
  readonly store: () => Store;
  readonly prefix: string;
}

const closing: (() => Promise<unknown>)[] = [];

afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

/** Has something done after the current test, once its caches are closed. */
export const afterCaches = (close: () => Promise<unknown>): void => void closing.push(close);

/** Runs the same tests on the memory store, on a real Redis and on a real memcached: what is promised is promised of all. */
export function onEachStore(promise: string, tests: (world: () => World) => void): void {
  describe(`${promise}, on the memory store`, () => tests(() => memoryWorld()));
  describe(`${promise}, on Redis`, () => tests(() => redisWorld()));
  describe(`${promise}, on memcached`, () => tests(() => memcachedWorld()));
}

export function memoryWorld(make: () => Store = memoryStore): World {
  const store = make();
  return worldOn(() => store);
}

export function redisWorld(): World {
  return worldOn(() => {
    const client = new Redis(inject("redisStandalone"));
    const store = redisStore({ client });
    closing.push(() => client.quit());
    return store;
  });
}

export function memcachedWorld(): World {
  return worldOn(() => {
    const [{ host, port }] = inject("memcached");
    const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
    const store = memcachedStore({ client });
    closing.push(async () => client.shutdown());
    return store;
  });
}

function worldOn(store: () => Store): World {
  const prefix = `world-${randomUUID()}`;
  return {
    store,
    prefix,
    process: (typeDefs, resolvers, options = {}) => makeProcess(store(), prefix, typeDefs, resolvers, options),
  };
}

function makeProcess(
  store: Store,
  prefix: string,
  typeDefs: string,
  resolvers: object,
  options: CacheOptions<never>,
): Process {
  const events: CacheEvent[] = [];
  const quiet = { info: () => undefined, warn: () => undefined };
  const settings = { jitter: 0, earlyRefresh: 0, ...options.defaults };
  const cache = createCache({
    store,
    prefix,
    logger: quiet,
    onEvent: (event) => events.push(event),
    ...options,
    defaults: settings,
  } as CacheOptions);
  // The caches close before the stores under them, which were made earlier.
  closing.unshift(async () => {
    await cache.close();
    const unread = events.filter((event) => event.name === "entry.served" || event.name === "resolver.bypassed").length;
    expect(Object.values(outcomes(events)).reduce((sum, count) => sum + count, 0)).toBe(unread);
  });
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as IResolvers }),
    cache,
  );
  return {
    cache,
    schema,
    events,
    ask: (source, contextValue, variableValues) =>
      graphql({ schema, source, contextValue, ...(variableValues === undefined ? {} : { variableValues }) }),
    outcomes: () => outcomes(events),
  };
}

function outcomes(events: readonly CacheEvent[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const event of events) {
    const outcome =
      event.name === "entry.served"
        ? event.outcome
        : event.name === "resolver.bypassed"
          ? `bypassed(${event.reason})`
          : undefined;
    if (outcome !== undefined) counts[outcome] = (counts[outcome] ?? 0) + 1;
  }
  return counts;
}

/** Resolves once `count` loads of a process have been stored, or have been refused by the store. */
export async function stored({ events }: Pick<Process, "events">, count = 1): Promise<void> {
  const storeRequests = (): number => events.filter(({ name }) => name === "write.finished").length;
  await vi.waitFor(() => expect(storeRequests()).toBeGreaterThanOrEqual(count), { timeout: 10_000, interval: 5 });
}

/** The data of an answer that has no errors. */
export async function dataOf(answer: Promise<ExecutionResult>): Promise<unknown> {
  const { data, errors } = await answer;
  expect(errors).toBeUndefined();
  return JSON.parse(JSON.stringify(data));
}
