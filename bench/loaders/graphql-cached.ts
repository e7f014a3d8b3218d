import type { Redis } from "ioredis";
import { createClient } from "redis";
import { type CacheOptions, createCache } from "../../src/index.js";
import { type RedisClient, redisStore } from "../../src/redis/index.js";
import { type Contender, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

/** A loader of graphql-cached, one context per request, with default options. */
function contender(
  name: string,
  hasTags: boolean,
  more: Pick<CacheOptions, "nearCache"> = {},
  clientOf: (client: Redis) => RedisClient = (client) => client,
): Contender {
  return {
    name,
    open: ({ client, prefix, source }) => {
      const cache = createCache({
        store: redisStore({ client: clientOf(client) }),
        prefix,
        logger: silentLogger,
        ...more,
      });
      const films = cache.loader<string, Film, object>({
        name: "Film",
        batch: (ids) => source.load(ids),
        maxAge: MAX_AGE_S,
        ...(hasTags ? { tags: (id: string) => [`Film:${id}`] } : {}),
      });
      return {
        request: () => {
          const requestLoader = films({});
          return (id) => requestLoader.load(id);
        },
        invalidate: (id) => cache.invalidateTags([`Film:${id}`]),
      };
    },
  };
}

/** A client of node-redis for the same server. */
function nodeRedis({ options }: Redis): RedisClient {
  const client = createClient({ socket: { port: options.port as number } });
  client.on("error", () => undefined);
  client.connect().catch(() => undefined);
  return client;
}

export const contenders: readonly Contender[] = [
  contender("graphql-cached", false),
  contender("graphql-cached, a tag each", true),
  contender("graphql-cached, node-redis", false, {}, nodeRedis),
  contender("graphql-cached, near cache", false, { nearCache: {} }),
  contender("graphql-cached, near cache, a tag each", true, { nearCache: {} }),
  contender("graphql-cached, near cache of 32 MB", false, {
    nearCache: { maxBytes: 32 * 2 ** 20, maxEntries: 1_000_000 },
  }),
];
