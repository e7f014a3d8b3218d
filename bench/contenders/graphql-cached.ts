import { type CacheOptions, createCache } from "../../src/index.js";
import { redisStore } from "../../src/redis/index.js";
import type { Film } from "../source.js";
import type { Contender } from "./contender.js";

/** How long a failure is shared: of this length are the back-offs that loads are counted in. */
export const FAILURE_MS = 1_000;
/** The time budget of one store operation, as it is by default. */
export const STORE_TIMEOUT_MS = 100;

const quiet = { info: (): void => undefined, warn: (): void => undefined };

/** The loader of graphql-cached, a context a request. Everything that is not said stands at its default. */
export const graphqlCached = contender("graphql-cached", {});
/** The same with a near cache; values are not frozen, as in production. */
export const graphqlCachedNear = contender("graphql-cached, near", { nearCache: { freeze: false } });

function contender(name: string, options: Pick<CacheOptions, "nearCache">): Contender {
  return { name, kind: "ours", open: opener(options) };
}

function opener(options: Pick<CacheOptions, "nearCache">): Contender["open"] {
  return ({ client, prefix, source, keeping }) => {
    const cache = createCache({
      store: redisStore({ client }),
      prefix,
      logger: quiet,
      warnOnContextReads: false,
      errorBackoffMs: FAILURE_MS,
      storeTimeoutMs: STORE_TIMEOUT_MS,
      ...options,
    });
    const films = cache.loader<string, Film, object>({
      name: "Film",
      batch: (ids) => source.load(ids),
      maxAge: keeping.maxAge,
      staleWhileRevalidate: keeping.staleFor,
      ...(keeping.isInvalidated ? { tags: (id: string) => [`Film:${id}`] } : {}),
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
