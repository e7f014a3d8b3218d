import type { ApolloServerPlugin } from "@apollo/server";
import responseCachePluginModule from "@apollo/server-plugin-response-cache";
import DataLoader from "dataloader";
import type { GraphQLSchema } from "graphql";
import type { Redis } from "ioredis";
import { CACHE_CONTROL } from "../cache-control.js";
import { loadLibrary } from "../library.js";
import { MAX_AGE_S } from "../loaders/contender.js";
import { type Directives, type FieldName, type Loaders, loadersOf, type ShopSource, shopSchema } from "./shop.js";

/** What a contender uses. The caller owns the client and the source. */
export interface PageOptions {
  readonly client: Redis;
  readonly prefix: string;
  readonly source: ShopSource;
  /** The folder of the build of graphql-cached. Default: that of this checkout. */
  readonly library?: string;
}

/** A server of the shop. */
export interface Shop {
  readonly schema: GraphQLSchema;
  readonly plugins?: readonly ApolloServerPlugin[];
  /** Returns the loaders of a request. */
  loaders(): Loaders;
  /** Resolves once nothing that is cached of an item can be read any more. Default: nothing is invalidated. */
  invalidate?(id: string): Promise<unknown>;
}

/** One way to serve the shop. */
export interface PageContender {
  readonly name: string;
  open(options: PageOptions): Promise<Shop>;
}

/** Loads from the source, in one call per field and request. */
const dataLoaders = (source: ShopSource): Loaders =>
  loadersOf((name) => new DataLoader((ids: readonly string[]) => source.load(name, ids)));

/** What a team writes in an afternoon: DataLoader with MGET and JSON, and DEL after a mutation. No leases, no protection, no tags. */
export const byHand: PageContender = {
  name: "by hand",
  open: async ({ client, prefix, source }) => {
    const keyOf = (name: FieldName, id: string): string => `${prefix}:${name}:${id}`;
    const batchOf =
      (name: FieldName) =>
      async (ids: readonly string[]): Promise<unknown[]> => {
        const texts = await client.mget(ids.map((id) => keyOf(name, id)));
        const values = texts.map((text): unknown => (text === null ? undefined : JSON.parse(text)));
        const missing = ids.filter((_, nth) => values[nth] === undefined);
        if (missing.length === 0) return values;
        const loaded = await source.load(name, missing);
        const writes = client.pipeline();
        for (const [nth, id] of missing.entries())
          writes.set(keyOf(name, id), JSON.stringify(loaded[nth]), "EX", MAX_AGE_S);
        writes.exec().catch(() => undefined);
        let next = 0;
        return values.map((value) => value ?? loaded[next++]);
      };
    return {
      schema: shopSchema({}),
      loaders: () => loadersOf((name) => new DataLoader(batchOf(name))),
      invalidate: (id) => client.del(keyOf("film", id), keyOf("stars", id), keyOf("stock", id)),
    };
  },
};

export const dataLoaderOnly: PageContender = {
  name: "DataLoader only",
  open: async ({ source }) => ({ schema: shopSchema({}), loaders: () => dataLoaders(source) }),
};

/** Resolvers that return at once: no source and no cache. Whatever executes the query needs this time. */
export const executionOnly: PageContender = {
  name: "execution only",
  open: async ({ source }) => {
    const loaders = loadersOf((name) => ({ load: (id) => source.valueOf(name, id) }));
    return { schema: shopSchema({}), loaders: () => loaders };
  },
};

// The plugin is published as CommonJS and as a module; TypeScript sees the former's default export.
export const responseCachePlugin = ((responseCachePluginModule as { default?: unknown }).default ??
  responseCachePluginModule) as (options?: object) => ApolloServerPlugin;

/** Apollo's response cache, which stores in Redis. */
export const responseCacheOnRedis = (client: Redis, prefix: string): ApolloServerPlugin =>
  responseCachePlugin({
    cache: {
      get: async (key: string) => (await client.get(`${prefix}:${key}`)) ?? undefined,
      set: async (key: string, value: string) => void (await client.set(`${prefix}:${key}`, value, "EX", MAX_AGE_S)),
      delete: async (key: string) => (await client.del(`${prefix}:${key}`)) > 0,
    },
  });

/** Whole responses, which nothing invalidates. */
export const responseCache: PageContender = {
  name: "Apollo's response cache",
  open: async ({ client, prefix, source }) => {
    const hint = `@cacheControl(maxAge: ${MAX_AGE_S})`;
    const directives: Directives = { category: hint, recommendations: hint, items: hint, item: hint };
    return {
      schema: shopSchema(directives, [CACHE_CONTROL]),
      plugins: [responseCacheOnRedis(client, prefix)],
      loaders: () => dataLoaders(source),
    };
  },
};

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

/** graphql-cached around the resolvers of "DataLoader only". */
function graphqlCached(name: string, { isNear = false, hasTags = true, hasResponses = false }): PageContender {
  return {
    name,
    open: async ({ client, prefix, source, library }) => {
      const { applyCached, cachedPlugin, cachedTypeDefs, createCache, redisStore } = await loadLibrary(library);
      const cache = createCache({
        defaultScope: "PUBLIC",
        store: redisStore({ client }),
        prefix,
        logger: silentLogger,
        ...(isNear ? { nearCache: {} } : {}),
      });
      const policy = (tag: string): string =>
        `@cached(maxAge: ${MAX_AGE_S}${hasTags && tag !== "" ? `, tags: ["${tag}"]` : ""})`;
      const hint = hasResponses ? `@cacheControl(maxAge: ${MAX_AGE_S})` : "";
      const directives: Directives = {
        category: `${policy("Category:{$args.id}")} ${hint}`,
        recommendations: `${policy("")} ${hint}`,
        items: hint,
        item: `${policy("Item:{$source.id}")} ${hint}`,
      };
      const invalidateKeys = (id: string): Promise<unknown> =>
        Promise.all(
          ["Item.film", "Item.stars", "Item.stock"].map((coordinate) =>
            cache.invalidate({ coordinate, source: { id } }),
          ),
        );
      return {
        schema: applyCached(shopSchema(directives, [cachedTypeDefs, ...(hasResponses ? [CACHE_CONTROL] : [])]), cache),
        plugins: [cachedPlugin(cache, hasResponses ? { responses: true } : {})],
        loaders: () => dataLoaders(source),
        invalidate: hasTags ? (id) => cache.invalidateTags([`Item:${id}`]) : invalidateKeys,
      };
    },
  };
}

export const cachedRedis: PageContender = graphqlCached("graphql-cached, Redis", {});
export const cachedUntagged: PageContender = graphqlCached("graphql-cached, Redis, no tags", { hasTags: false });
export const cachedNear: PageContender = graphqlCached("graphql-cached, near cache", { isNear: true });

export const responsesRedis: PageContender = graphqlCached("graphql-cached, responses, Redis", { hasResponses: true });
export const responsesNear: PageContender = graphqlCached("graphql-cached, responses, near cache", {
  isNear: true,
  hasResponses: true,
});

/** In the order of the tables. */
export const PAGE_CONTENDERS: readonly PageContender[] = [
  byHand,
  cachedRedis,
  cachedUntagged,
  cachedNear,
  dataLoaderOnly,
  responseCache,
  executionOnly,
];
/** Those that keep whole responses are measured beside each other: see `scenarios/responses.ts`. */
export const RESPONSE_CONTENDERS: readonly PageContender[] = [
  cachedRedis,
  cachedNear,
  responsesRedis,
  responsesNear,
  responseCache,
  dataLoaderOnly,
];
