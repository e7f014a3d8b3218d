import { randomUUID } from "node:crypto";
import { memcachedStore } from "@graphql-cached/memcached";
import { sqliteStore } from "@graphql-cached/sqlite";
import { chaosStore, FakeClock } from "@graphql-cached/testing";
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
  /** Its log lines, without the beginning that all of them have. */
  readonly infos: string[];
  readonly warnings: string[];
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
  /** Starts a process in whose schema nothing is cached, for loaders and functions. */
  bare(options?: CacheOptions<never>): Process;
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

/** A world on a memory store, which can fail, and whose processes share its clock, which the test advances. */
export function timedWorld() {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const world = worldOn(
    () => store,
    (options) => ({ ...options, testing: { clock, ...options.testing } }),
  );
  return { ...world, clock, chaos: store.chaos };
}

/** Two of what `make` returns, such as processes on one store. */
export const pair = <T>(make: () => T): readonly [T, T] => [make(), make()];

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
  }, patient);
}

function worldOnMemcached({ host, port }: Address): World {
  return worldOn(() => {
    const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
    const store = memcachedStore({ client });
    cleanups.push(async () => client.shutdown());
    return store;
  }, patient);
}

function worldOnSqlite(module: string): World {
  const { path, remove } = sqliteFolder();
  cleanups.push(remove);
  return worldOn(() => sqliteStore({ path, database: opensWith(module) }), patient);
}

/** A busy machine must not look like a server that fails. */
const patient = (options: CacheOptions<never>): CacheOptions<never> => ({
  ...options,
  storage: { storeTimeoutMs: 1_000, ...options.storage },
});

/** `adapt` adds what all processes of a world have to the options of one. */
function worldOn(store: () => Store, adapt = (options: CacheOptions<never>) => options): World {
  const prefix = `world-${randomUUID()}`;
  const process: World["process"] = (typeDefs, resolvers, options = {}, applyOptions = {}) =>
    makeProcess(store(), prefix, typeDefs, resolvers, adapt(options), applyOptions);
  return { store, prefix, process, bare: (options) => process("type Query { unused: Int }", {}, options) };
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
  const [infos, warnings]: [string[], string[]] = [[], []];
  const into = (lines: string[]) => (line: string) => void lines.push(line.replace("graphql-cached: ", ""));
  const defaults = { jitter: 0, earlyRefresh: 0, ...options.defaults };
  const audit = new Audit();
  const cache = createCache({
    defaultScope: "PUBLIC",
    ...({
      prefix,
      logger: { info: into(infos), warn: into(warnings) },
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
    infos,
    warnings,
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

/** Returns the message of the first error of a result. */
export const messageOf = async (result: Promise<ExecutionResult>): Promise<string | undefined> =>
  (await result).errors?.[0]?.message;

/** Returns the data of a result, and fails the test if the result has errors. */
export async function dataOf(result: Promise<ExecutionResult>): Promise<unknown> {
  const { data, errors } = await result;
  expect(errors).toBeUndefined();
  return JSON.parse(JSON.stringify(data));
}
