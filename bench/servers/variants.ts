import type { ApolloServerPlugin } from "@apollo/server";
import responseCachePluginModule from "@apollo/server-plugin-response-cache";
import { createInMemoryCache, useResponseCache } from "@envelop/response-cache";
import type { FastifyInstance } from "fastify";
import type { GraphQLSchema } from "graphql";
import type { Plugin } from "graphql-yoga";
import type { Redis } from "ioredis";
import { createNotificationPair, Loader } from "layered-loader";
import mercuriusCache from "mercurius-cache";
import { cachedPlugin } from "../../src/apollo/index.js";
import { applyCached, type Cache, type CacheOptions, createCache, memoryStore } from "../../src/index.js";
import { cachedHooks } from "../../src/mercurius/index.js";
import { redisStore } from "../../src/redis/index.js";
import { useCached } from "../../src/yoga/index.js";
import { baseline } from "../contenders/baseline.js";
import type { Contender } from "../contenders/contender.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { FieldReader } from "../limits/field-reader.js";
import { hashingFloor } from "../limits/hashing-floor.js";
import { MemoryMap } from "../limits/memory-map.js";
import type { Kind } from "../report.js";
import { type Film, Source } from "../source.js";
import { type FilmSource, filmSchema, type Item, NEAR_IDS, type ResolveFilm } from "./film-schema.js";

const MAX_AGE_S = 600;

/** What a variant uses. */
export interface VariantOptions {
  readonly client: Redis;
  readonly prefix: string;
  readonly films: FilmSource;
}

/** A schema with its cache, and what each server needs for it. */
export interface ServedSchema {
  readonly schema: GraphQLSchema;
  /** Returns the context of a request. Default: an empty object. */
  readonly contextOf?: () => object;
  readonly apollo?: ApolloServerPlugin;
  readonly yoga?: Plugin;
  /** Called after the registration of Mercurius. */
  readonly mercurius?: (app: FastifyInstance) => Promise<void>;
}

/** One way to cache on a server. */
export interface Variant {
  readonly name: string;
  readonly kind: Kind;
  readonly module: string;
  open(options: VariantOptions): ServedSchema;
}

const variant = (name: string, kind: Kind, open: Variant["open"]): Variant => ({
  name,
  kind,
  module: "servers/variants",
  open,
});

export const noCache: Variant = variant("no cache", "none", ({ films }) => ({
  schema: filmSchema(({ id }) => films.load(id)),
}));
/** The same again: how much it differs from the first shows the noise of the measurement. */
export const noCacheAgain: Variant = variant("no cache, repeated", "none", noCache.open);

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

/** graphql-cached, in all servers. */
function cachedVariant(name: string, optionsOf: (client: Redis) => Pick<CacheOptions, "store" | "nearCache">): Variant {
  return variant(name, "ours", ({ client, prefix, films }) => {
    const cache: Cache = createCache({ ...optionsOf(client), prefix, logger: silentLogger });
    return {
      schema: applyCached(
        filmSchema(({ id }) => films.load(id)),
        cache,
      ),
      apollo: cachedPlugin(cache),
      yoga: useCached(cache) as Plugin,
      mercurius: async (app) => cachedHooks(app, cache),
    };
  });
}

export const cachedNear: Variant = cachedVariant("graphql-cached, near cache", (client) => ({
  store: redisStore({ client }),
  nearCache: {},
}));
export const cachedRedis: Variant = cachedVariant("graphql-cached, Redis", (client) => ({
  store: redisStore({ client }),
}));
export const cachedMemory: Variant = cachedVariant("graphql-cached, memory store", () => ({ store: memoryStore() }));

/** Resolvers that read through a contender of the other scenarios, with one request of it per GraphQL request. */
const byHand = ({ name, kind, open }: Contender): Variant =>
  variant(name, kind, ({ client, prefix, films }) => {
    const source = new Source(undefined);
    source.load = async (ids) => Promise.all(ids.map((id) => films.load(id)));
    const policy = { maxAge: MAX_AGE_S, staleFor: 0, isInvalidated: false };
    const instance = open({ client, prefix, source, policy });
    const resolveFilm = (({ id }: Item, { read }: { read: (id: string) => Promise<Film> }) => read(id)) as ResolveFilm;
    return { schema: filmSchema(resolveFilm), contextOf: () => ({ read: instance.request() }) };
  });

export const handRedis: Variant = byHand(baseline);
export const handRedisHashed: Variant = byHand(hashingFloor);
export const layeredRedis: Variant = byHand(layeredLoaderMany);

/** layered-loader in memory, with invalidation messages. Values in memory are returned without a promise. */
export const layeredNear: Variant = variant("layered-loader, in memory", "peer", ({ client, prefix, films }) => {
  const connection = { enableOfflineQueue: true, lazyConnect: false };
  const { publisher, consumer } = createNotificationPair<Film>({
    channel: `${prefix}-changes`,
    publisherRedis: client.duplicate(connection),
    consumerRedis: client.duplicate(connection),
  });
  const loader = new Loader<Film>({
    inMemoryCache: { ttlInMsecs: MAX_AGE_S * 1_000, maxItems: NEAR_IDS },
    notificationPublisher: publisher,
    notificationConsumer: consumer,
    dataSourceGetOneFn: (id) => films.load(id),
  });
  return { schema: filmSchema(({ id }) => loader.getInMemoryOnly(id) ?? loader.get(id)) };
});

/** The least that a cached field does: a key from the parent object and the arguments, and a look into a Map. No promise. */
export const bareField: Variant = variant("bare: Map around the resolver", "limit", ({ films }) => {
  const entries = new MemoryMap(MAX_AGE_S);
  return {
    schema: filmSchema(({ id }, _context, args) => {
      const key = `Item.film ${id} ${JSON.stringify(args)}`;
      return entries.get(key) ?? films.load(id).then((film) => entries.set(key, film));
    }),
  };
});

/** The same with Redis: the least that a cached field does there. */
export const bareRedisField: Variant = variant(
  "bare: one MGET a tick, around the resolver",
  "limit",
  ({ client, prefix, films }) => {
    const reader = new FieldReader(client, prefix, MAX_AGE_S);
    return {
      schema: filmSchema(({ id }, _context, args) =>
        reader.read(`Item.film ${id} ${JSON.stringify(args)}`, () => films.load(id)),
      ),
    };
  },
);

// The plugin is published as CommonJS and as a module; TypeScript sees the former's default export.
const responseCachePlugin = ((responseCachePluginModule as { default?: unknown }).default ??
  responseCachePluginModule) as (options?: object) => ApolloServerPlugin;

/** Whole responses on an Apollo server. Its memory cache has Apollo's default size of 30 MB. */
export const apolloResponseCache: Variant = variant("Apollo's response cache, memory", "peer", ({ films }) => ({
  schema: filmSchema(({ id }) => films.load(id)),
  apollo: responseCachePlugin(),
}));
export const apolloResponseCacheRedis: Variant = variant(
  "Apollo's response cache, Redis",
  "peer",
  ({ client, prefix, films }) => {
    const cache = {
      get: async (key: string) => (await client.get(`${prefix}:${key}`)) ?? undefined,
      set: async (key: string, value: string) => void (await client.set(`${prefix}:${key}`, value, "EX", MAX_AGE_S)),
      delete: async (key: string) => (await client.del(`${prefix}:${key}`)) > 0,
    };
    return { schema: filmSchema(({ id }) => films.load(id)), apollo: responseCachePlugin({ cache }) };
  },
);

/** Whole responses on a Yoga server, for as many responses as there are pages. */
export const yogaResponseCache: Variant = variant("envelop response cache, memory", "peer", ({ films }) => ({
  schema: filmSchema(({ id }) => films.load(id)),
  yoga: useResponseCache({
    session: () => null,
    ttl: MAX_AGE_S * 1_000,
    cache: createInMemoryCache({ max: NEAR_IDS }),
  }) as Plugin,
}));

/** Fields on a Mercurius server, in memory. */
export const mercuriusFieldCache: Variant = variant("mercurius-cache, memory", "peer", ({ films }) => ({
  schema: filmSchema(({ id }) => films.load(id)),
  mercurius: async (app) => {
    await app.register(mercuriusCache as never, {
      ttl: MAX_AGE_S,
      policy: { Item: { film: true } },
      storage: { type: "memory", options: { size: NEAR_IDS } } as never,
    });
  },
}));

export const VARIANTS: readonly Variant[] = [
  noCache,
  noCacheAgain,
  cachedNear,
  cachedRedis,
  cachedMemory,
  handRedis,
  handRedisHashed,
  bareRedisField,
  layeredRedis,
  layeredNear,
  bareField,
  apolloResponseCache,
  apolloResponseCacheRedis,
  yogaResponseCache,
  mercuriusFieldCache,
];
