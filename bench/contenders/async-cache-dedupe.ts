import { createCache } from "async-cache-dedupe";
import type { Film } from "../source.js";
import type { Contender } from "./contender.js";

/** async-cache-dedupe with its Redis storage and `stale` window. It invalidates across processes through references. */
export const asyncCacheDedupe: Contender = {
  name: "async-cache-dedupe",
  kind: "peer",
  module: "contenders/async-cache-dedupe",
  open: ({ client, prefix, source, policy }) => {
    const { maxAge, staleFor, isInvalidated } = policy;
    const referencesTTL = maxAge + staleFor + 60;
    const cache = createCache({
      ttl: maxAge,
      stale: staleFor,
      storage: { type: "redis", options: { client, ...(isInvalidated ? { invalidation: { referencesTTL } } : {}) } },
    });
    const references = isInvalidated ? { references: (id: string) => [`${prefix}:${id}`] } : {};
    const films = cache.define(prefix, references, (id: string): Promise<Film> => source.loadOne(id));
    const read = films[prefix] as (id: string) => Promise<Film>;
    return { request: () => read, invalidate: (id) => cache.invalidateAll([`${prefix}:${id}`]) };
  },
};
