/**
 * Tests of the public types. `npm run typecheck` checks them: each line below `@ts-expect-error` must
 * not compile. Nothing in this file runs.
 */
import {
  applyCached,
  type Cache,
  type CachedLoader,
  type CacheEvent,
  type CacheOptions,
  cachedTypeDefsAs,
  createCache,
  type InspectionResolvers,
  inspectionResolvers,
  memoryStore,
  type PolicySettings,
  type Store,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { expectTypeOf } from "vitest";

interface Context {
  readonly userId: string;
  readonly db: { films(ids: readonly number[]): Promise<Film[]> };
}
interface Film {
  readonly id: number;
  readonly title: string;
}
declare const context: Context;

export async function loadersAreInferred(cache: Cache<Context>): Promise<void> {
  const films = cache.loader({
    name: "Film",
    batch: (ids: readonly number[], { db }) => db.films(ids),
    tags: (id) => [`Film:${id}`],
    maxAge: 60,
  });
  expectTypeOf(films).parameter(0).toEqualTypeOf<Context>();
  expectTypeOf(films(context)).toEqualTypeOf<CachedLoader<number, Film>>();
  expectTypeOf(await films(context).load(7)).toEqualTypeOf<Film>();
  expectTypeOf(await films(context).loadMany([7])).toEqualTypeOf<(Film | Error)[]>();
  // Errors in the returned list are not part of the value type.
  const names = cache.loader({
    name: "Name",
    batch: async (ids: readonly string[]) => ids.map((id): string | Error => (id === "" ? new Error("no id") : id)),
  });
  expectTypeOf(await names(context).load("a")).toEqualTypeOf<string>();
  // @ts-expect-error: the ids are numbers
  await films(context).load("7");
  // @ts-expect-error: not the context of this cache
  films({ userId: 7 });
  // @ts-expect-error: a primed value must be a film
  films(context).prime(7, { id: "7" });
}

export function loadersAreChecked(cache: Cache<Context>): void {
  // @ts-expect-error: a batch function returns a promise
  cache.loader({ name: "A", batch: (ids: readonly number[]) => ids });
  // @ts-expect-error: a batch function resolves to a list
  cache.loader({ name: "A", batch: async (_ids: readonly number[]) => 7 });
  // @ts-expect-error: a batch function takes a list
  cache.loader({ name: "A", batch: async (id: number) => [id] });
  // @ts-expect-error: a loader needs a name
  cache.loader({ batch: async (ids: readonly number[]) => ids });
  const batch = async (ids: readonly number[]): Promise<readonly number[]> => ids;
  // @ts-expect-error: maxAge is a number of seconds
  cache.loader({ name: "A", batch, maxAge: "1 min" });
  // @ts-expect-error: unknown setting
  cache.loader({ name: "A", batch, ttl: 60 });
  // @ts-expect-error: the key of a loader is its id
  cache.loader({ name: "A", batch, key: ["$args.id"] });
  // @ts-expect-error: the tags of a loader are a function of the id, not templates
  cache.loader({ name: "A", batch, tags: ["A:{$args.id}"] });
  // @ts-expect-error: an existence guard resolves to a list
  cache.loader({ name: "A", batch, exists: { has: async () => true } });
}

export function policiesAreChecked(): void {
  const settings: PolicySettings = { maxAge: 60, refresh: "FOREGROUND", scope: "PRIVATE", key: ["$args"], tags: ["T"] };
  createCache({ defaults: { maxAge: 60 }, profiles: { hot: settings } });
  // @ts-expect-error: scope is PUBLIC or PRIVATE
  createCache({ defaults: { scope: "SHARED" } });
  // @ts-expect-error: refresh is BACKGROUND or FOREGROUND
  createCache({ profiles: { hot: { refresh: "LATER" } } });
  // @ts-expect-error: defaults take no tags
  createCache({ defaults: { tags: ["T"] } });
  // @ts-expect-error: defaults take no profile
  createCache({ defaults: { profile: "hot" } });
  // @ts-expect-error: unknown setting
  createCache({ profiles: { hot: { ttl: 9 } } });
}

export function optionsAreChecked(client: { get(key: string): Promise<string> }): void {
  createCache({ store: memoryStore({ maxBytes: 4096 }), prefix: "x", nearCache: {} });
  createCache<Context>({ identify: ({ userId }) => userId });
  expectTypeOf(createCache<Context>()).toEqualTypeOf<Cache<Context>>();
  expectTypeOf<CacheOptions<Context>["identify"]>().toEqualTypeOf<((context: Context) => unknown) | undefined>();
  // @ts-expect-error: durations are numbers of milliseconds
  createCache({ leaseMs: "3s" });
  // @ts-expect-error: unknown option
  createCache({ prefx: "x" });
  // @ts-expect-error: a store must implement the Store interface
  createCache({ store: {} });
  // @ts-expect-error: a store must implement all of its methods
  createCache({ store: { read: memoryStore().read } });
  // @ts-expect-error: identify is a function
  createCache({ identify: "userId" });
  // @ts-expect-error: the context has no such property
  createCache<Context>({ identify: ({ user }) => user });
  // @ts-expect-error: an encryption key is a string or bytes
  createCache({ encryption: { keys: [{ id: "a", key: 7 }] } });
  // @ts-expect-error: not an ioredis client
  redisStore({ client });
  // @ts-expect-error: maxBytes is a number
  memoryStore({ maxBytes: "1mb" });
  expectTypeOf(memoryStore()).toExtend<Store>();
}

export async function callsAreChecked(cache: Cache<Context>): Promise<void> {
  expectTypeOf(await cache.mutate({ tags: ["T"] }, () => 7)).toEqualTypeOf<number>();
  expectTypeOf(await cache.mutate({}, async () => "a")).toEqualTypeOf<string>();
  expectTypeOf(await cache.invalidateTags(["T"])).toEqualTypeOf<void>();
  // @ts-expect-error: tags must be a list
  await cache.invalidateTags("T");
  // @ts-expect-error: an entry needs a coordinate
  await cache.invalidate({ args: { id: 7 } });
  // @ts-expect-error: soft is a boolean
  await cache.invalidate({ coordinate: "Query.a" }, { soft: "yes" });
  // @ts-expect-error: the write function is required
  await cache.mutate({ tags: ["T"] });
}

export function schemasAreChecked(cache: Cache<Context>, schema: import("graphql").GraphQLSchema): void {
  expectTypeOf(applyCached(schema, cache, { directive: "cacheField" })).toEqualTypeOf<typeof schema>();
  expectTypeOf(cachedTypeDefsAs({ invalidates: "evicts" })).toEqualTypeOf<string>();
  // @ts-expect-error: a schema is not SDL text
  applyCached("type Query { a: Int }", cache);
  // @ts-expect-error: not a cache made by createCache
  applyCached(schema, {});
  // @ts-expect-error: a directive name is a string
  applyCached(schema, cache, { directive: true });
  // @ts-expect-error: unknown directive name
  cachedTypeDefsAs({ cache: "cacheField" });
}

export function inspectionIsChecked(cache: Cache<Context>): void {
  expectTypeOf(inspectionResolvers(cache, { allow: () => true })).toEqualTypeOf<InspectionResolvers>();
  // @ts-expect-error: allow is required
  inspectionResolvers(cache);
  // @ts-expect-error: allow is a function
  inspectionResolvers(cache, { allow: true });
  cachedPlugin(cache, { allow: () => true });
  // @ts-expect-error: allow is a function for the plugin too
  cachedPlugin(cache, { allow: "admins" });
}

export function eventsAreDiscriminated(event: CacheEvent): string {
  if (event.name === "entry.served") return event.outcome;
  if (event.name === "resolver.bypassed") return event.reason;
  // @ts-expect-error: other events have no outcome
  return event.outcome;
}
