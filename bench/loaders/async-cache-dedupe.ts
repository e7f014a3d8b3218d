import { createCache } from "async-cache-dedupe";
import { type Contender, MAX_AGE_S } from "./contender.js";
import type { Film } from "./source.js";

/** async-cache-dedupe with its Redis storage. It invalidates across processes through references. */
export const asyncCacheDedupe: Contender = {
  name: "async-cache-dedupe",
  open: ({ client, prefix, source }) => {
    const invalidation = { referencesTTL: MAX_AGE_S + 60 };
    const cache = createCache({ ttl: MAX_AGE_S, storage: { type: "redis", options: { client, invalidation } } });
    const references = (id: string): string[] => [`${prefix}:${id}`];
    const films = cache.define(prefix, { references }, (id: string): Promise<Film> => source.loadOne(id));
    const read = films[prefix] as (id: string) => Promise<Film>;
    return { request: () => read, invalidate: (id) => cache.invalidateAll([`${prefix}:${id}`]) };
  },
};
