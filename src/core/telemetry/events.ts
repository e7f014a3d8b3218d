import type { CachedError } from "../base/errors.js";

/**
 * How a read ended.
 *
 * - `hit`: a fresh value from the store or from memory.
 * - `stale`: a stale value, while it is refreshed or after `softTimeoutMs`.
 * - `staleIfError`: a stale value, because the load failed or could not be tried.
 * - `loaded`: the result of its own load, which may have failed.
 * - `coalesced`: the result of another caller's load, in this or another process.
 * - `bypassed`: a value without the cache. The event is `resolver.bypassed`.
 */
export type ReadOutcome = "hit" | "stale" | "staleIfError" | "loaded" | "coalesced" | "bypassed";

/** Why a read bypassed the cache. `CacheBypassReason` in the inspection SDL describes them. */
export const BYPASS_REASONS = [
  "KEY_UNUSABLE",
  "NO_IDENTITY",
  "UNCACHEABLE",
  "WRITE_IN_PROGRESS",
  "STORE_UNAVAILABLE",
  "WAIT_TIMEOUT",
  "NESTED",
  "DOES_NOT_EXIST",
  "REQUESTED",
  "MODE_OFF",
  "KEY_COLLISION",
  "ABORTED",
  "CLOSED",
] as const;
export type BypassReason = (typeof BYPASS_REASONS)[number];

/**
 * The call that asked for an invalidation.
 *
 * - `entityTags`: a mutation has returned the entities.
 * - `retry`: an earlier invalidation that the store had not confirmed, or may have lost.
 */
export type InvalidationVia =
  | "cache.invalidate"
  | "cache.invalidateTags"
  | "cache.clear"
  | "cache.mutate"
  | "@invalidates"
  | "entityTags"
  | "outbox"
  | "retry";

/** Who asked for an invalidation. Contains no user data. */
export interface InvalidationCause {
  readonly via: InvalidationVia;
  /** The mutation field with `@invalidates` or entity tags, such as `Mutation.updateMovie`. */
  readonly mutation?: string;
}

/** The subject of an event. Never contains a value, an argument or a whole key. */
export interface Subject {
  readonly coordinate: string;
  /** The digest of the key; empty if no key could be built. */
  readonly digest: string;
}

/**
 * What a connection of a store's own is for. Messages to waiters (`wake-ups`) and messages to
 * memory with `maxStalenessMs` (`memory`) can share one.
 */
export type ConnectionUse = "wake-ups" | "memory";

/** Every event of the cache. Names have the form `noun.participle`. */
export type CacheEvent =
  /** A read ended with a value, or with the error of its load. */
  | ({ readonly name: "entry.served"; readonly outcome: Exclude<ReadOutcome, "bypassed"> } & Subject)
  /** A read bypassed the cache. `error`: a mistake to correct. */
  | ({ readonly name: "resolver.bypassed"; readonly reason: BypassReason; readonly error?: CachedError } & Subject)
  /** A load begins: one event per key, also if one call loads many. */
  | ({ readonly name: "load.started"; readonly isRefresh: boolean } & Subject)
  /** It returned. */
  | ({ readonly name: "load.finished"; readonly loadMs: number } & Subject)
  /** It threw. */
  | ({ readonly name: "load.failed"; readonly loadMs: number; readonly error: unknown } & Subject)
  /** The queue of the bulkhead was full, the breaker open, or the request aborted. */
  | ({ readonly name: "load.refused"; readonly error: unknown } & Subject)
  /** A caller has waited for a load that was not its own. */
  | ({ readonly name: "wait.finished"; readonly waitMs: number; readonly isLocal: boolean } & Subject)
  /**
   * Two loads of the key in a row failed with errors of one caller. For `errorBackoffMs`, each
   * caller loads for itself.
   */
  | ({ readonly name: "sharing.suspended"; readonly error: unknown } & Subject)
  /** `errorMaxAgeMs` threw, or did not return a duration. */
  | ({ readonly name: "lifetime.refused"; readonly error: CachedError } & Subject)
  /** `abortSignal` threw, or did not return an abort signal. */
  | ({ readonly name: "signal.refused"; readonly error: CachedError } & Subject)
  /** A value was stored, or not. `storedBytes`: its size in the store, or 0. */
  | ({ readonly name: "write.finished"; readonly isStored: boolean; readonly storedBytes: number } & Subject)
  /** A value is not stored; `error` says why. */
  | ({ readonly name: "value.refused"; readonly error: CachedError } & Subject)
  /** A stored entry cannot be used; it is loaded again. */
  | ({ readonly name: "entry.corrupt"; readonly error: CachedError } & Subject)
  /** A running load has lost its lease: the key was invalidated, or another process took over. */
  | ({ readonly name: "lease.lost" } & Subject)
  /**
   * A PUBLIC load read a context property that is not in its key. Once per coordinate and property;
   * off in production by default.
   */
  | ({ readonly name: "context.read"; readonly property: string } & Subject)
  /** The same for a load that changed the context, which a hit does not. */
  | ({ readonly name: "context.written"; readonly property: string } & Subject)
  /**
   * A template made no tag, since a property is missing, or a call named a tag that no value can
   * have; `coordinate` is null then. Once for each.
   */
  | {
      readonly name: "tag.mistaken";
      readonly coordinate: string | null;
      readonly digest: string;
      readonly error: CachedError;
    }
  /** `refreshQueue` accepted a refresh. */
  | ({ readonly name: "refresh.enqueued" } & Subject)
  /** `refreshQueue` rejected a refresh, which now runs in this process. */
  | ({ readonly name: "refresh.rejected"; readonly error: unknown } & Subject)
  /**
   * A store operation failed, exceeded its budget, or read only some keys. `node`: empty for a
   * single node. `nameCount`: keys and tags without a result.
   */
  | {
      readonly name: "store.failed";
      readonly node: string;
      readonly operation: string;
      readonly nameCount: number;
      readonly error: unknown;
    }
  /** A store operation has ended. */
  | {
      readonly name: "store.finished";
      readonly node: string;
      readonly operation: string;
      readonly nameCount: number;
      readonly storeMs: number;
      readonly error?: unknown;
    }
  /** Operations that failed succeed again, or have not failed for 30 seconds. */
  | { readonly name: "store.recovered"; readonly node: string }
  /**
   * A connection of the store's own cannot be used, while others can. Once for each cause. `node`:
   * empty for a single node, or if any will do.
   */
  | {
      readonly name: "connection.failed";
      readonly use: ConnectionUse;
      readonly node: string;
      readonly error: CachedError;
    }
  /** All of these connections can be used again. */
  | { readonly name: "connection.recovered" }
  /** An invalidation has ended. Unless it is confirmed, it is repeated. */
  | {
      readonly name: "invalidation.finished";
      readonly via: InvalidationVia;
      /** The mutation field that was executed, for `@invalidates` and `entityTags`. */
      readonly mutation?: string;
      readonly kind: "hard" | "soft";
      readonly isConfirmed: boolean;
      readonly invalidationMs: number;
      readonly tagCount: number;
      /** The number of entries that were named one by one. */
      readonly entryCount: number;
      /** Fields and loaders of these entries, and those of which all entries were invalidated. */
      readonly coordinates: readonly string[];
      /** Whether everything under the prefix was invalidated. */
      readonly isClear: boolean;
      /**
       * Everything that was invalidated, as the headers `Cache-Tag` and `Surrogate-Key` name it:
       * what a CDN has to purge.
       */
      readonly tags: readonly string[];
    }
  /** Too many invalidations are unconfirmed, so everything under the prefix is invalidated. */
  | { readonly name: "invalidations.overflowed"; readonly error: CachedError };

export type ServedEvent = Extract<CacheEvent, { name: "entry.served" }>;

/** The events of hits and of waiting readers. They are made only if they are listened to. */
export type FrequentEvent = Extract<CacheEvent, { name: "entry.served" | "wait.finished" | "store.finished" }>;

export type Listener = (event: CacheEvent) => void;
