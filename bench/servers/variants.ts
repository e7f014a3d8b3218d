import type { ApolloServerPlugin } from "@apollo/server";
import { createInMemoryCache, useResponseCache } from "@envelop/response-cache";
import type { FormattedExecutionResult, GraphQLSchema } from "graphql";
import type { Plugin } from "graphql-yoga";
import type { Redis } from "ioredis";
import { applyCached, createCache } from "../../src/index.js";
import { cachedPlugin, stringifyResult } from "../../src/servers/apollo/index.js";
import { useCached } from "../../src/servers/yoga/index.js";
import { redisStore } from "../../src/stores/redis/index.js";
import { byHand } from "../loaders/by-hand.js";
import { MAX_AGE_S } from "../loaders/contender.js";
import { type Film, Source } from "../loaders/source.js";
import { MEMORY, type MemoryName } from "../memory.js";
import { responseCacheOnRedis, responseCachePlugin } from "../page/response-cache.js";
import { type FilmSource, filmSchema, IDS } from "./films.js";

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
  readonly stringifyResult?: (result: FormattedExecutionResult) => string;
  readonly yoga?: Plugin;
}

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

interface CachedVariant {
  /** Default: default options. */
  readonly memory?: MemoryName;
  readonly responses?: boolean;
  readonly sendsText?: boolean;
}

const cached =
  ({ memory = "byDefault", responses = false, sendsText = false }: CachedVariant = {}) =>
  ({ client, prefix, films }: VariantOptions): ServedSchema => {
    const cache = createCache({
      defaultScope: "PUBLIC",
      store: redisStore({ client }),
      prefix,
      logger: silentLogger,
      ...MEMORY[memory],
    });
    const schema = filmSchema(({ id }) => films.load(id));
    return {
      schema: applyCached(schema, cache),
      apollo: cachedPlugin(cache, { responses }),
      yoga: useCached(cache, { responses }) as Plugin,
      ...(sendsText ? { stringifyResult } : {}),
    };
  };

const plain = ({ films }: VariantOptions): ServedSchema => ({ schema: filmSchema(({ id }) => films.load(id)) });

/** Ways to cache on a server. */
export const VARIANTS = {
  "no cache": plain,
  "by hand": ({ client, prefix, films }) => {
    const source = new Source();
    source.load = async (ids) => Promise.all(ids.map((id) => films.load(id)));
    const instance = byHand.open({ client, prefix, source });
    type Context = { readonly read: (id: string) => Promise<Film> };
    return {
      schema: filmSchema(({ id }, { read }: Context) => read(id)),
      contextOf: () => ({ read: instance.request() }),
    };
  },
  "graphql-cached": cached(),
  "graphql-cached, no memory": cached({ memory: "none" }),
  "graphql-cached, up to 2 s stale": cached({ memory: "twoSeconds" }),
  "graphql-cached, responses": cached({ responses: true }),
  "graphql-cached, responses, no memory": cached({ memory: "none", responses: true }),
  "graphql-cached, responses as text": cached({ responses: true, sendsText: true }),
  "graphql-cached, responses as text, no memory": cached({ memory: "none", responses: true, sendsText: true }),
  /** Whole responses on an Apollo server. Its memory cache has Apollo's default size of 30 MB. */
  "Apollo's response cache, memory": (options) => ({ ...plain(options), apollo: responseCachePlugin() }),
  "Apollo's response cache, Redis": (options) => ({
    ...plain(options),
    apollo: responseCacheOnRedis(options.client, options.prefix),
  }),
  /** Whole responses on a Yoga server, for as many responses as there are pages. */
  "envelop's response cache, memory": (options) => ({
    ...plain(options),
    yoga: useResponseCache({
      session: () => null,
      ttl: MAX_AGE_S * 1_000,
      cache: createInMemoryCache({ max: IDS }),
    }) as Plugin,
  }),
} satisfies Record<string, (options: VariantOptions) => ServedSchema>;

export type VariantName = keyof typeof VARIANTS;
