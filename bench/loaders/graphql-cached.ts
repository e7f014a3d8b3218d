import { type CacheOptions, createCache } from "../../src/index.js";
import { redisStore } from "../../src/redis/index.js";
import { type Contender, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

const silentLogger = { info: (): void => undefined, warn: (): void => undefined };

/** A loader of graphql-cached, one context per request, with default options. */
function contender(name: string, hasTags: boolean, more: Pick<CacheOptions, "nearCache"> = {}): Contender {
  return {
    name,
    open: ({ client, prefix, source }) => {
      const cache = createCache({ store: redisStore({ client }), prefix, logger: silentLogger, ...more });
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

export const contenders: readonly Contender[] = [
  contender("graphql-cached", false),
  contender("graphql-cached, a tag each", true),
  contender("graphql-cached, near cache", false, { nearCache: {} }),
  contender("graphql-cached, near cache, a tag each", true, { nearCache: {} }),
  contender("graphql-cached, near cache of 32 MB", false, {
    nearCache: { maxBytes: 32 * 2 ** 20, maxEntries: 1_000_000 },
  }),
];
