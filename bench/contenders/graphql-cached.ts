import { type CacheOptions, createCache } from "../../src/index.js";
import { redisStore } from "../../src/redis/index.js";
import type { Film } from "../source.js";
import type { Contender } from "./contender.js";

/** How long a failure is shared. Equals the default. */
export const ERROR_BACKOFF_MS = 1_000;
/** The time limit of a store operation. Equals the default. */
export const STORE_TIMEOUT_MS = 100;

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

/** A loader of graphql-cached, one context per request, other options at their defaults. */
export const graphqlCached = createContender("graphql-cached", {});
/** The same with a near cache, values not frozen, as in production. */
export const graphqlCachedNear = createContender("graphql-cached, near", { nearCache: { freeze: false } });

function createContender(name: string, options: Pick<CacheOptions, "nearCache">): Contender {
  return { name, kind: "ours", open: createOpen(options) };
}

function createOpen(options: Pick<CacheOptions, "nearCache">): Contender["open"] {
  return ({ client, prefix, source, policy }) => {
    const cache = createCache({
      store: redisStore({ client }),
      prefix,
      logger: silentLogger,
      privacy: { warnOnContextReads: false },
      loads: { errorBackoffMs: ERROR_BACKOFF_MS },
      storage: { storeTimeoutMs: STORE_TIMEOUT_MS },
      ...options,
    });
    const films = cache.loader<string, Film, object>({
      name: "Film",
      batch: (ids) => source.load(ids),
      maxAge: policy.maxAge,
      staleWhileRevalidate: policy.staleFor,
      ...(policy.isInvalidated ? { tags: (id: string) => [`Film:${id}`] } : {}),
    });
    return {
      request: () => {
        const loader = films({});
        return (id) => loader.load(id);
      },
      invalidate: (id) => cache.invalidateTags([`Film:${id}`]),
    };
  };
}
