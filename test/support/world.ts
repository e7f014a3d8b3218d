import { randomUUID } from "node:crypto";
import { memcachedStore } from "@graphql-cached/memcached";
import { sqliteStore } from "@graphql-cached/sqlite";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { type ExecutionResult, type GraphQLSchema, graphql } from "graphql";
import {
  type ApplyCachedOptions,
  applyCached,
  type Cache,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
} from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";
import { beforeAll, describe, expect, vi } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { Audit } from "./audit.js";
import { cleanups } from "./cleanups.js";
import type { Address } from "./server-lab.js";
import { shared, sharedServer } from "./shared-servers.js";
import { opensWith, sqliteFolder } from "./sqlite-files.js";

/** One simulated process: a cache, a schema that uses it, and the events the cache emitted. */
export interface Process {
  readonly cache: Cache;
  readonly schema: GraphQLSchema;
  readonly events: CacheEvent[];
  /** Executes an operation against the schema. */
  ask(source: string, contextValue?: unknown, variableValues?: Record<string, unknown>): Promise<ExecutionResult>;
  /** The number of reads per outcome; bypasses are counted as `bypassed(<reason>)`. */
  outcomes(): Record<string, number>;
}

/** One store and key prefix that any number of simulated processes share. */
export interface World {
  /** Starts a process with its own cache on the shared store. */
  process(
    typeDefs: string,
    resolvers: object,
    options?: CacheOptions<never>,
    applyOptions?: ApplyCachedOptions,
  ): Process;
  readonly store: () => Store;
  readonly prefix: string;
}

/** Runs `close` after the current test, once the caches of that test are closed. */
export const afterCaches = (close: () => Promise<unknown>): void => void cleanups.push(close);

/** Runs the same tests on the memory store, a real Redis, a real memcached and a file, because the guarantees hold on all of them. */
export function onEachStore(subject: string, tests: (world: () => World) => void): void {
  describe(`${subject} (memory store)`, () => tests(() => memoryWorld()));
  describe(`${subject} (Redis)`, () => {
    let server: Address;
    beforeAll(async () => {
      server = await sharedServer("redisStandalone");
    });
    tests(() => worldOnRedis(server));
  });
  describe(`${subject} (memcached)`, () => {
    let server: Address;
    beforeAll(async () => {
      [server] = await sharedServer("memcached");
    });
    tests(() => worldOnMemcached(server));
  });
  describe(`${subject} (SQLite)`, () => {
    let module: string;
    beforeAll(async () => {
      module = await shared("sqlite");
    });
    tests(() => worldOnSqlite(module));
  });
}

export function memoryWorld(make: () => Store = memoryStore): World {
  const store = make();
  return worldOn(() => store);
}

/** A world on the shared Redis server. */
export async function redisWorld(): Promise<World> {
  return worldOnRedis(await sharedServer("redisStandalone"));
}

function worldOnRedis(server: Address): World {
  return worldOn(() => {
    const client = new Redis(server);
    const store = redisStore({ client });
    cleanups.push(() => client.quit());
    return store;
  }, SERVER_STORAGE);
}

function worldOnMemcached({ host, port }: Address): World {
  return worldOn(() => {
    const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
    const store = memcachedStore({ client });
    cleanups.push(async () => client.shutdown());
    return store;
  }, SERVER_STORAGE);
}

function worldOnSqlite(module: string): World {
  const { path, remove } = sqliteFolder();
  cleanups.push(remove);
  return worldOn(() => sqliteStore({ path, database: opensWith(module) }), SERVER_STORAGE);
}

/** A busy machine must not look like a server that fails. */
const SERVER_STORAGE = { storeTimeoutMs: 1_000 };

function worldOn(store: () => Store, storage: object = {}): World {
  const prefix = `world-${randomUUID()}`;
  return {
    store,
    prefix,
    process: (typeDefs, resolvers, options = {}, applyOptions = {}) => {
      const ownOptions = { ...options, storage: { ...storage, ...options.storage } };
      return makeProcess(store(), prefix, typeDefs, resolvers, ownOptions, applyOptions);
    },
  };
}

function makeProcess(
  store: Store,
  prefix: string,
  typeDefs: string,
  resolvers: object,
  options: CacheOptions<never>,
  applyOptions: ApplyCachedOptions,
): Process {
  const events: CacheEvent[] = [];
  const silentLogger = { info: () => undefined, warn: () => undefined };
  const defaults = { jitter: 0, earlyRefresh: 0, ...options.defaults };
  const audit = new Audit();
  const cache = createCache({
    defaultScope: "PUBLIC",
    ...({
      prefix,
      logger: silentLogger,
      onEvent: (event) => events.push(event),
      ...options,
      defaults,
      store: audit.watchStore("store" in options ? options.store : store),
    } as CacheOptions),
  });
  // Closes caches before the clients of their stores, which were registered earlier.
  cleanups.unshift(async () => {
    await cache.close();
    audit.check(events);
  });
  const sources = audit.watchSources(resolvers) as IResolvers;
  const source = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: sources });
  const schema = applyCached(source, cache, applyOptions);
  audit.watchRequests(schema, [...partsOf(cache, "test").rules.fields.keys()]);
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

/** Resolves once `count` store attempts of a process have finished, whether the store accepted or refused the value. */
export async function waitForStores({ events }: Pick<Process, "events">, count = 1): Promise<void> {
  const finishedStores = (): number => events.filter(({ name }) => name === "write.finished").length;
  await vi.waitFor(() => expect(finishedStores()).toBeGreaterThanOrEqual(count), { timeout: 10_000, interval: 5 });
}

/** Returns the data of a result, and fails the test if the result has errors. */
export async function dataOf(result: Promise<ExecutionResult>): Promise<unknown> {
  const { data, errors } = await result;
  expect(errors).toBeUndefined();
  return JSON.parse(JSON.stringify(data));
}
