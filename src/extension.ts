import type { Cache } from "./cache.js";
import type { Cancel, Clock } from "./core/base/clock.js";
import { partsOf } from "./core/parts.js";
import type { Counts } from "./core/telemetry/counters.js";
import type { FrequentEvent, Listener } from "./core/telemetry/events.js";
import type { Logger } from "./core/telemetry/log-listener.js";
import type { Tracing } from "./core/telemetry/tracing.js";

/**
 * Returns what packages that extend a cache use of it. Throws `CACHED_OPTION_INVALID` if `cache`
 * was not made by `createCache`; the message names `caller`.
 */
export function extensionOf<Context>(cache: Cache<Context>, caller: string): CacheExtension {
  const { channel, clock, counters, logger, store } = partsOf(cache, caller);
  return {
    prefix: channel.prefix,
    storeName: store.name,
    isShared: store.isShared !== false,
    clock,
    logger,
    counts: () => counters.all(),
    listen: (listener, frequent) => channel.listen(listener, frequent),
    get tracing() {
      return channel.tracing;
    },
    set tracing(tracing) {
      channel.tracing = tracing;
    },
    invalidateTags: (tags, via) => cache.invalidateTags(tags, {}, { via }),
  };
}

/** What packages that extend a cache use of it. */
export interface CacheExtension {
  readonly prefix: string;
  /** What kind of store it is, such as `redis`. */
  readonly storeName: string;
  /** Whether other processes can use the store. */
  readonly isShared: boolean;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Returns what this process has counted since it started, by coordinate. */
  counts(): Iterable<[coordinate: string, counts: Counts]>;
  /**
   * Calls `listener` with every event, and of the frequent ones, of which a hit makes some, with
   * those that are named. Default: all. Returns what ends it.
   */
  listen(listener: Listener, frequent?: readonly FrequentEvent["name"][]): Cancel;
  /** Follows loads, waits and store operations. Default: undefined. */
  tracing: Tracing | undefined;
  /** Invalidates tags as `cache.invalidateTags` does, in the name of `via`. */
  invalidateTags(tags: readonly string[], via: "outbox"): Promise<void>;
}
