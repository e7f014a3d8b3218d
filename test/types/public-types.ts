/**
 * What the published types accept and reject, checked against the built package by
 * `test/docs/docs.test.ts`: each line after `@ts-expect-error` must not compile. Nothing here runs.
 */
import { ApolloServer } from "@apollo/server";
import { storeConformance } from "@graphql-cached/testing";
import type { GraphQLResolveInfo, GraphQLSchema } from "graphql";
import {
  applyCached,
  type Cache,
  type CachedFunction,
  type CachedLoader,
  type CacheEvent,
  createCache,
  type FunctionCall,
  inspectionResolvers,
  memoryStore,
  type ResultControl,
  type ResultSettings,
  resultControl,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Codec, jsonCodec } from "graphql-cached/codec";
import { cachedHooks, type MercuriusApp } from "graphql-cached/mercurius";
import { redisStore } from "graphql-cached/redis";
import type { Store, StoredEntry, transitions } from "graphql-cached/store";
import { useCached } from "graphql-cached/yoga";
import { Redis } from "ioredis";
import { expectTypeOf } from "vitest";

interface MyContext {
  readonly userId: string;
  readonly isAdmin: boolean;
  readonly db: { films(ids: readonly number[]): Promise<Film[]> };
}
interface Film {
  readonly id: number;
  readonly title: string;
}
declare const myContext: MyContext;
declare const app: MercuriusApp;

export function acceptsOnlyCachesOfCreateCache(given: GraphQLSchema): void {
  // @ts-expect-error: an empty object is not a cache
  applyCached(given, {});
  // @ts-expect-error: a Date is not a cache
  applyCached(given, new Date());
  // @ts-expect-error: an empty object is not a cache
  cachedPlugin({});
  // @ts-expect-error: a number is not a cache
  useCached(42);
  // @ts-expect-error: a Map is not a cache
  inspectionResolvers(new Map(), { allow: () => true });
  // @ts-expect-error: an empty object is not a cache
  cachedHooks(app, {});
  // @ts-expect-error: a copy of the methods is not a cache
  applyCached(given, { ...createCache({ defaultScope: "PUBLIC" }) });
}

export function infersTheContextFromTheCache(given: GraphQLSchema): void {
  const mine = createCache<MyContext>({ identify: (context) => context.userId });
  expectTypeOf(mine).toEqualTypeOf<Cache<MyContext>>();
  expectTypeOf(applyCached(given, mine)).toEqualTypeOf<GraphQLSchema>();
  new ApolloServer<MyContext>({ schema: given, plugins: [cachedPlugin(mine, { allow: ({ isAdmin }) => isAdmin })] });
  inspectionResolvers(mine, { allow: ({ isAdmin }) => isAdmin });
  useCached(mine, { allow: ({ isAdmin }) => isAdmin });
  cachedHooks(app, mine, { allow: ({ isAdmin }) => isAdmin });
  // @ts-expect-error: the context has no such property
  cachedPlugin(mine, { allow: ({ isRoot }) => isRoot });
  // @ts-expect-error: the context of the server lacks what the cache needs
  new ApolloServer<{ readonly userId: string }>({ schema: given, plugins: [cachedPlugin(mine)] });
  // @ts-expect-error: the context has no such property
  createCache<MyContext>({ identify: ({ user }) => user });
  // A cache without a context type fits a server with any.
  new ApolloServer<MyContext>({ schema: given, plugins: [cachedPlugin(createCache({ defaultScope: "PUBLIC" }))] });
}

export async function infersTheTypesOfLoaders(mine: Cache<MyContext>): Promise<void> {
  const films = mine.loader({
    name: "Film",
    batch: (ids: readonly number[], { db }) => db.films(ids),
    tags: (id) => [`Film:${id}`],
    maxAge: 60,
  });
  expectTypeOf(films).parameter(0).toEqualTypeOf<MyContext>();
  expectTypeOf(films(myContext)).toEqualTypeOf<CachedLoader<number, Film>>();
  expectTypeOf(await films(myContext).load(7)).toEqualTypeOf<Film>();
  expectTypeOf(await films(myContext).loadMany([7])).toEqualTypeOf<(Film | Error)[]>();
  // An Error in the place of a value is not part of the value's type.
  const names = mine.loader({
    name: "Name",
    batch: async (ids: readonly string[]) => ids.map((id): string | Error => (id === "" ? new Error("no id") : id)),
  });
  expectTypeOf(await names(myContext).load("a")).toEqualTypeOf<string>();
  // @ts-expect-error: the ids are numbers
  await films(myContext).load("7");
  // @ts-expect-error: this is another context
  films({ userId: 7 });
  // @ts-expect-error: the loader loads films
  films(myContext).prime(7, { id: "7" });
}

export async function infersTheTypesOfFunctions(mine: Cache<MyContext>): Promise<void> {
  const rates = mine.wrap({
    name: "rates",
    maxAge: 60,
    load: async (currency: string, day?: Date) => ({ currency, day, rate: 1 }),
    key: (currency, day) => [currency, day?.getDate()],
    tags: (currency) => [`Rate:${currency}`],
  });
  expectTypeOf(rates).parameters.toEqualTypeOf<[currency: string, day?: Date | undefined]>();
  expectTypeOf(await rates("EUR")).toEqualTypeOf<{ currency: string; day: Date | undefined; rate: number }>();
  expectTypeOf(rates.clear).parameters.toEqualTypeOf<[currency: string, day?: Date | undefined]>();
  expectTypeOf(rates).toEqualTypeOf<
    CachedFunction<
      [currency: string, day?: Date | undefined],
      { currency: string; day: Date | undefined; rate: number }
    >
  >();
  // @ts-expect-error: the currency is a text
  await rates(7);
  // @ts-expect-error: there is a currency
  await rates.clear();
  const titles = mine.wrap({
    name: "titles",
    maxAge: 60,
    tags: ["Film"],
    context: (_ids: readonly number[], context: MyContext) => context,
    async load(ids: readonly number[], { db }: MyContext) {
      expectTypeOf(this).toEqualTypeOf<FunctionCall>();
      expectTypeOf(this.signal).toEqualTypeOf<AbortSignal>();
      this.result.set({ maxAge: 5 });
      return (await db.films(ids)).map(({ title }) => title);
    },
  });
  expectTypeOf(await titles([7], myContext)).toEqualTypeOf<string[]>();
  // A value is not a promise of one.
  expectTypeOf(mine.wrap({ name: "sum", load: (...numbers: number[]) => numbers.length })).toEqualTypeOf<
    CachedFunction<number[], number>
  >();
  // @ts-expect-error: a context is an object
  mine.wrap({ name: "other", context: () => 7, load: () => 1 });
  // @ts-expect-error: a function has a name
  mine.wrap({ load: () => 1 });
  // @ts-expect-error: there is no such setting
  mine.wrap({ name: "other", load: () => 1, ttl: 60 });
  // @ts-expect-error: the key is made by a function
  mine.wrap({ name: "other", load: () => 1, key: ["$args.id"] });
  // @ts-expect-error: an identity is not a promise
  mine.wrap({ name: "other", load: () => 1, identify: async () => "alice" });
  // @ts-expect-error: the load has no such argument
  mine.wrap({ name: "other", load: (id: number) => id, tags: (id: string) => [id] });
  await mine.invalidate({ function: "rates", args: ["EUR"] });
  // @ts-expect-error: the arguments are a list
  await mine.invalidate({ function: "rates", args: "EUR" });
}

export function checksLoaderOptions(mine: Cache<MyContext>): void {
  // @ts-expect-error: a batch function returns a promise
  mine.loader({ name: "A", batch: (ids: readonly number[]) => ids });
  // @ts-expect-error: the promise resolves to a list
  mine.loader({ name: "A", batch: async (_ids: readonly number[]) => 7 });
  // @ts-expect-error: a batch function takes a list
  mine.loader({ name: "A", batch: async (id: number) => [id] });
  // @ts-expect-error: a loader has a name
  mine.loader({ batch: async (ids: readonly number[]) => ids });
  const batch = async (ids: readonly number[]): Promise<readonly number[]> => ids;
  // @ts-expect-error: durations are numbers
  mine.loader({ name: "A", batch, maxAge: "1 min" });
  // @ts-expect-error: there is no such setting
  mine.loader({ name: "A", batch, ttl: 60 });
  // @ts-expect-error: the key of a loader is its id
  mine.loader({ name: "A", batch, key: ["$args.id"] });
  // @ts-expect-error: the tags of a loader are a function
  mine.loader({ name: "A", batch, tags: ["A:{$args.id}"] });
  // @ts-expect-error: `has` returns a list
  mine.loader({ name: "A", batch, exists: { has: async () => true } });
}

export function checksPolicies(): void {
  createCache({ defaultScope: "PRIVATE", defaults: { maxAge: 60, refresh: "FOREGROUND" } });
  // @ts-expect-error: PUBLIC or PRIVATE
  createCache({ defaultScope: "SHARED" });
  // @ts-expect-error: the scope is an option of its own
  createCache({ defaults: { scope: "PUBLIC" } });
  // @ts-expect-error: BACKGROUND or FOREGROUND
  createCache({ defaults: { refresh: "LATER" } });
  // @ts-expect-error: defaults have no tags
  createCache({ defaults: { tags: ["T"] } });
  // @ts-expect-error: there is no such setting
  createCache({ defaults: { ttl: 9 } });
}

export function checksOptions(other: { get(key: string): Promise<string> }): void {
  createCache({ store: memoryStore({ maxBytes: 4096 }), prefix: "x", leases: { leaseMs: 5_000 } });
  createCache({
    store: redisStore({ client: new Redis() }),
    prefix: "x",
    memory: { maxStalenessMs: 2_000 },
    codec: jsonCodec,
  });
  createCache<MyContext>({ identify: ({ userId }) => (userId === "" ? null : userId) });
  // @ts-expect-error: an identity is not a promise
  createCache<MyContext>({ identify: async ({ userId }) => userId });
  // @ts-expect-error: an identity is not an object
  createCache<MyContext>({ identify: (context) => context });
  // @ts-expect-error: milliseconds are a number
  createCache({ leases: { leaseMs: "3s" } });
  // @ts-expect-error: the option belongs to a group
  createCache({ leaseMs: 3_000 });
  // @ts-expect-error: there is no such option
  createCache({ prefx: "x" });
  // @ts-expect-error: a store has methods
  createCache({ store: {} });
  // @ts-expect-error: a store has all methods of the port
  createCache({ store: { read: memoryStore().read } });
  // @ts-expect-error: identify is a function
  createCache({ identify: "userId" });
  // @ts-expect-error: a key is a string or bytes
  createCache({ encryption: { keys: [{ id: "a", key: 7 }] } });
  // @ts-expect-error: a Redis client has more methods
  redisStore({ client: other });
  // @ts-expect-error: bytes are a number
  memoryStore({ maxBytes: "1mb" });
  expectTypeOf(memoryStore()).toExtend<Store>();
  expectTypeOf(jsonCodec).toExtend<Codec>();
  expectTypeOf<ReturnType<typeof transitions.renew>>().toEqualTypeOf<StoredEntry | undefined>();
  expectTypeOf(storeConformance).toExtend<readonly { readonly title: string }[]>();
}

export async function checksCalls(mine: Cache<MyContext>): Promise<void> {
  expectTypeOf(await mine.mutate({ tags: ["T"] }, () => 7)).toEqualTypeOf<number>();
  expectTypeOf(await mine.mutate({}, async () => "a")).toEqualTypeOf<string>();
  expectTypeOf(await mine.invalidateTags(["T"])).toEqualTypeOf<void>();
  // @ts-expect-error: tags are a list
  await mine.invalidateTags("T");
  // @ts-expect-error: an entry has a coordinate
  await mine.invalidate({ args: { id: 7 } });
  // @ts-expect-error: `soft` is true or false
  await mine.invalidate({ coordinate: "Query.a" }, { soft: "yes" });
  expectTypeOf(mine.setMode("off", "Query.a")).toEqualTypeOf<void>();
  // @ts-expect-error: modes are off and on
  mine.setMode("observe");
  // @ts-expect-error: the write is missing
  await mine.mutate({ tags: ["T"] });
}

export async function checksTheControlOfResults(mine: Cache<MyContext>, info: GraphQLResolveInfo): Promise<void> {
  const control = resultControl(info);
  expectTypeOf(control).toEqualTypeOf<ResultControl>();
  expectTypeOf(control.set).parameter(0).toEqualTypeOf<ResultSettings>();
  control.set({ maxAge: 5, staleWhileRevalidate: undefined, tags: ["T"] });
  // @ts-expect-error: seconds are a number
  control.set({ maxAge: "5" });
  // @ts-expect-error: there is no such setting
  control.set({ ttl: 5 });
  // @ts-expect-error: tags are a list
  control.set({ tags: "T" });
  // @ts-expect-error: `info` is an object
  resultControl("Query.a");

  const films = mine.loader({
    name: "Film",
    maxAge: 60,
    maxAgeLimit: 600,
    async batch(ids: readonly number[], context, { results, signal }) {
      expectTypeOf(results).toEqualTypeOf<readonly ResultControl[]>();
      expectTypeOf(signal).toEqualTypeOf<AbortSignal>();
      results[0]?.skip();
      return context.db.films(ids);
    },
  });
  // The values are inferred from what the batch function returns.
  expectTypeOf(films).toEqualTypeOf<(context: MyContext) => CachedLoader<number, Film>>();
}

export function checksSchemas(mine: Cache<MyContext>, given: GraphQLSchema): void {
  expectTypeOf(applyCached(given, mine, { entityTags: true })).toEqualTypeOf<GraphQLSchema>();
  // @ts-expect-error: SDL is not a schema
  applyCached("type Query { a: Int }", mine);
  // @ts-expect-error: a policy is an object
  applyCached(given, mine, { policies: { "Query.a": true } });
  // @ts-expect-error: `allow` is required
  inspectionResolvers(mine);
  // @ts-expect-error: `allow` is a function
  inspectionResolvers(mine, { allow: true });
  // @ts-expect-error: `allow` is a function
  cachedPlugin(mine, { allow: "admins" });
}

export function narrowsEvents(event: CacheEvent): string {
  if (event.name === "entry.served") return event.outcome;
  if (event.name === "resolver.bypassed") return event.reason;
  // @ts-expect-error: other events have no outcome
  return event.outcome;
}
