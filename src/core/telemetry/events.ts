import type { CachedError } from "../base/errors.js";

/**
 * How a read ended.
 *
 * - `hit`: a fresh value from the store, or from the memory of the process.
 * - `stale`: a stale value, while it is refreshed or after `softTimeoutMs`.
 * - `staleIfError`: a stale value, because the load failed or could not be tried.
 * - `loaded`: its own load, which may also have failed.
 * - `coalesced`: the result of another caller's load, in this or another process.
 * - `bypassed`: a value without the cache; the event is `resolver.bypassed`.
 */
export type ReadOutcome = "hit" | "stale" | "staleIfError" | "loaded" | "coalesced" | "bypassed";

/** Why a read bypassed the cache; `CacheBypassReason` in the inspection SDL describes each reason. */
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
  /** The mutation field that asked for it with `@invalidates` or entity tags, such as `Mutation.updateMovie`. */
  readonly mutation?: string;
}

/** The subject of an event. Never contains a value, an argument or a whole key. */
export interface Subject {
  readonly coordinate: string;
  /** The digest of the key; empty if no key could be built. */
  readonly digest: string;
}

/** What a connection of a store's own is for. Messages to waiters (`wake-ups`) and messages to memory with `maxStalenessMs` (`memory`) can share one. */
export type ConnectionUse = "wake-ups" | "memory";

/** Every event of the cache. Names have the form `noun.participle`. */
export type CacheEvent =
  /** A read ended with a value, or with the error of its load. */
  | ({ readonly name: "entry.served"; readonly outcome: Exclude<ReadOutcome, "bypassed"> } & Subject)
  /** A read bypassed the cache. `error` is set if there is a mistake to correct. */
  | ({ readonly name: "resolver.bypassed"; readonly reason: BypassReason; readonly error?: CachedError } & Subject)
  /** A resolver or batch function is about to be called. One event per key, even if a call gets many keys. */
  | ({ readonly name: "load.started"; readonly isRefresh: boolean } & Subject)
  /** It returned. */
  | ({ readonly name: "load.finished"; readonly loadMs: number } & Subject)
  /** It threw. */
  | ({ readonly name: "load.failed"; readonly loadMs: number; readonly error: unknown } & Subject)
  /**
   * The load was not started: the concurrency limit is reached and the queue is full, the breaker is
   * open, or the request that it was to run for was aborted meanwhile.
   */
  | ({ readonly name: "load.refused"; readonly error: unknown } & Subject)
  /** A caller has waited for a load that was not its own, whatever it got in the end. */
  | ({ readonly name: "wait.finished"; readonly waitMs: number; readonly isLocal: boolean } & Subject)
  /**
   * The last two loads of the key failed with errors that concern one caller only (`isCallerError`).
   * For `errorBackoffMs`, each caller loads for itself.
   */
  | ({ readonly name: "sharing.suspended"; readonly error: unknown } & Subject)
  /** The option `errorMaxAgeMs` threw, or returned something other than a duration. */
  | ({ readonly name: "lifetime.refused"; readonly error: CachedError } & Subject)
  /** The option `abortSignal` threw, or returned something other than an abort signal. */
  | ({ readonly name: "signal.refused"; readonly error: CachedError } & Subject)
  /** `storedBytes`: the size of the value in the store; 0 if it was not stored. */
  | ({ readonly name: "write.finished"; readonly isStored: boolean; readonly storedBytes: number } & Subject)
  /** A value cannot be restored exactly, is too large, would be refused by GraphQL, or depends on more than its key. */
  | ({ readonly name: "value.refused"; readonly error: CachedError } & Subject)
  /** A stored entry cannot be decoded, or GraphQL would refuse its value; it is loaded again. */
  | ({ readonly name: "entry.corrupt"; readonly error: CachedError } & Subject)
  /** The lease of a running load is gone: the key was invalidated, or another process took it over. */
  | ({ readonly name: "lease.lost" } & Subject)
  /**
   * The load of a PUBLIC value read a property of the context that is not part of its key.
   * Published once per coordinate and property. Off in production by default.
   */
  | ({ readonly name: "context.read"; readonly property: string } & Subject)
  /**
   * A load wrote a property of the context, or changed a list, a Map or a Set in it, which a hit does not.
   * Published once per coordinate and property. Off in production by default.
   */
  | ({ readonly name: "context.written"; readonly property: string } & Subject)
  /**
   * A tag is probably a mistake: a template of a field has yielded no tag, since its path leads to a property that is
   * missing, or a call has named a tag that no value can have; `coordinate` is null then. Published once for each.
   */
  | {
      readonly name: "tag.mistaken";
      readonly coordinate: string | null;
      readonly digest: string;
      readonly error: CachedError;
    }
  /** `refreshQueue` accepted a background refresh. */
  | ({ readonly name: "refresh.enqueued" } & Subject)
  /** `refreshQueue` rejected a background refresh, which now runs in this process. */
  | ({ readonly name: "refresh.rejected"; readonly error: unknown } & Subject)
  /**
   * A store operation failed, exceeded its time budget, or read only some of its keys. `node` is empty if the store is a
   * single node. `nameCount` is the number of keys and tags that got no result.
   */
  | {
      readonly name: "store.failed";
      readonly node: string;
      readonly operation: string;
      readonly nameCount: number;
      readonly error: unknown;
    }
  /** The store has replied to one operation, or has failed to. */
  | {
      readonly name: "store.finished";
      readonly node: string;
      readonly operation: string;
      readonly nameCount: number;
      readonly storeMs: number;
      readonly error?: unknown;
    }
  /** The first success once every kind of operation that failed has succeeded again, or not failed for 30 seconds. */
  | { readonly name: "store.recovered"; readonly node: string }
  /**
   * A connection that the store has opened for itself cannot be used, while others can. Published once for each cause.
   * `node` is empty if the store is a single node, or if any node will do.
   */
  | {
      readonly name: "connection.failed";
      readonly use: ConnectionUse;
      readonly node: string;
      readonly error: CachedError;
    }
  /** All connections that the store has opened for itself can be used again. */
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
      /** The fields and loaders of these entries, and those of which all entries were invalidated. */
      readonly coordinates: readonly string[];
      /** Whether everything under the prefix was invalidated. */
      readonly isClear: boolean;
      /** Everything that was invalidated, as the headers `Cache-Tag` and `Surrogate-Key` name it: what a CDN has to purge. */
      readonly tags: readonly string[];
    }
  /** More invalidations wait to be repeated than are kept, so everything under the prefix is invalidated. */
  | { readonly name: "invalidations.overflowed"; readonly error: CachedError };

export type ServedEvent = Extract<CacheEvent, { name: "entry.served" }>;

/** The events of hits and of waiting readers. They are made only if they are listened to. */
export type FrequentEvent = Extract<CacheEvent, { name: "entry.served" | "wait.finished" | "store.finished" }>;

export type Listener = (event: CacheEvent) => void;
