import type { Cache } from "./cache.js";
import type { Clock } from "./core/base/clock.js";
import { partsOf } from "./core/parts.js";
import type { Logger } from "./core/telemetry/log-listener.js";

/**
 * Returns what packages that extend a cache use of it. Throws `CACHED_OPTION_INVALID` if `cache` was not made by `createCache`;
 * the message names `caller`.
 */
export function extensionOf<Context>(cache: Cache<Context>, caller: string): CacheExtension {
  const { clock, logger } = partsOf(cache, caller);
  return {
    clock,
    logger,
    invalidateTags: (tags, via) => cache.invalidateTags(tags, {}, { via }),
  };
}

/** What packages that extend a cache use of it. */
export interface CacheExtension {
  readonly clock: Clock;
  readonly logger: Logger;
  /** Invalidates tags as `cache.invalidateTags` does, in the name of `via`. */
  invalidateTags(tags: readonly string[], via: "outbox"): Promise<void>;
}
