import { type CacheOptions, createCache, type LoaderOptions } from "../../src/index.js";
import { redisStore } from "../../src/redis/index.js";
import type { Film } from "../source.js";
import { tagsOf } from "../tags.js";
import type { Contender } from "./contender.js";

/** How long a failure is shared. Equals the default. */
export const ERROR_BACKOFF_MS = 1_000;
/** The time limit of a store operation. Equals the default. */
export const STORE_TIMEOUT_MS = 100;

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

interface Variant {
  /** Added to the options of the cache. */
  readonly cache?: Pick<CacheOptions, "nearCache">;
  /** Added to the options of the loader. */
  readonly loader?: object;
  /** Tags per key, out of fifty that all keys share. */
  readonly tags?: number;
  /** Whether each load gives its result a tag of its own. */
  readonly hasResultTags?: boolean;
}

/** A loader of graphql-cached, one context per request, other options at their defaults. */
export const graphqlCached: Contender = contender("graphql-cached", {});
/** The same with a near cache, values not frozen, as in production. */
export const graphqlCachedNear: Contender = contender("graphql-cached, near", {
  cache: { nearCache: { freeze: false } },
});
/** The same with tags that many keys share. */
export const graphqlCachedTags: readonly Contender[] = [1, 2, 5, 10].map((tags) =>
  contender(`graphql-cached, ${tags} tag${tags === 1 ? "" : "s"}`, { tags }),
);
/** The same with a tag of the result of each load, which is known only after the load. */
export const graphqlCachedResultTags: Contender = contender("graphql-cached, tags of results", { hasResultTags: true });
/** The same with values that are declared read-only, and so shared. */
export const graphqlCachedReadOnly: Contender = contender("graphql-cached, read-only values", {
  loader: { readOnly: true },
});

function contender(name: string, variant: Variant): Contender {
  return { name, kind: "ours", module: "contenders/graphql-cached", open: openVariant(variant) };
}

function openVariant({ cache: more, loader, tags = 0, hasResultTags = false }: Variant): Contender["open"] {
  return ({ client, prefix, source, policy }) => {
    const cache = createCache({
      store: redisStore({ client }),
      prefix,
      logger: silentLogger,
      privacy: { warnOnContextReads: false },
      loads: { errorBackoffMs: ERROR_BACKOFF_MS },
      storage: { storeTimeoutMs: STORE_TIMEOUT_MS },
      ...more,
    });
    const tagsOfId = policy.isInvalidated
      ? (id: string) => [`Film:${id}`, ...tagsOf(id, tags)]
      : (id: string) => tagsOf(id, tags);
    const options: LoaderOptions<string, Film, object> = {
      name: "Film",
      batch: (ids, _context, { results }) => {
        if (hasResultTags) for (const [nth, id] of ids.entries()) results[nth]?.set({ tags: [`Studio:${id}`] });
        return source.load(ids);
      },
      maxAge: policy.maxAge,
      staleWhileRevalidate: policy.staleFor,
      ...(policy.isInvalidated || tags > 0 ? { tags: tagsOfId } : {}),
      ...loader,
    };
    const films = cache.loader<string, Film, object>(options);
    return {
      request: () => {
        const requestLoader = films({});
        return (id) => requestLoader.load(id);
      },
      invalidate: (id) => cache.invalidateTags([`Film:${id}`]),
    };
  };
}
