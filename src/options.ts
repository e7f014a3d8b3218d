import type { Clock, Random } from "./core/base/clock.js";
import type { Codec } from "./core/codec/codec.js";
import type { EncryptionOptions } from "./core/codec/encryption.js";
import type { ValueTypes } from "./core/codec/value-type.js";
import type { PolicySettings } from "./core/policy/policy.js";
import type { Store } from "./core/store/store.js";
import type { Listener } from "./core/telemetry/events.js";
import type { Logger } from "./core/telemetry/log-listener.js";
import type { RefreshQueue } from "./core/tier/lease/refresh-job.js";
import type { ErrorMaxAgeMs } from "./core/tier/lease/settlement.js";

/** Options of `createCache`. Durations are in milliseconds; policies are in seconds, as in the directive. */
export interface CacheOptions<Context = object> {
  /** Where entries are kept. Default: a memory store for this process alone. */
  readonly store?: Store | undefined;
  /**
   * The first part of every key in the store. Caches with the same store and prefix share their
   * entries, PRIVATE ones included, so give each application its own. Required with a store that
   * other processes can use, such as Redis. Default: `gc`.
   */
  readonly prefix?: string | undefined;
  /**
   * Part of the name of every entry: entries of another version are not served. Change it when all
   * values may have changed in a way that no schema shows. Default: none.
   */
  readonly version?: string | undefined;
  /**
   * Returns the identity that PRIVATE values belong to. Fields of scope PRIVATE need it. Null and
   * undefined mean that the identity is unknown; the field is then resolved without the cache.
   */
  readonly identify?: ((context: Context) => string | number | bigint | null | undefined) | undefined;
  /**
   * The scope of every cached field and loader that does not say one. A field below a PRIVATE field is PRIVATE in any
   * case, and one that a mark of permission covers has to say its own. Default: none, each has to say its scope.
   */
  readonly defaultScope?: "PUBLIC" | "PRIVATE" | undefined;
  /** The policy of every cached field and loader, unless they set something else. Default: none. */
  readonly defaults?: Omit<PolicySettings, "key" | "tags" | "version" | "scope"> | undefined;
  /**
   * Values that this process has read or loaded stay in its memory, and are served once a read of the store has shown that nothing they depend on was
   * invalidated. False: every value is read from the store. Default: on, with 64 MiB.
   */
  readonly memory?: MemoryOptions | false | undefined;
  /** Called with every event of the cache. Exceptions it throws are ignored. Default: none. */
  readonly onEvent?: Listener | undefined;
  /** Receives the few events worth a log line. Default: `console`. */
  readonly logger?: Logger | undefined;
  /** Encodes values as text or bytes. Default: JSON with Date, BigInt, Map, Set and Buffer. */
  readonly codec?: Codec | undefined;
  /** How instances of classes are encoded and written into keys, by name. Default: none, they are not cached. */
  readonly types?: ValueTypes | undefined;
  /** Keys for AES-256-GCM: the first one encrypts, all of them decrypt. Default: values are not encrypted. */
  readonly encryption?: EncryptionOptions | undefined;
  readonly loads?: LoadOptions<Context> | undefined;
  readonly leases?: LeaseOptions | undefined;
  readonly storage?: StorageOptions | undefined;
  readonly invalidation?: InvalidationOptions | undefined;
  readonly privacy?: PrivacyOptions | undefined;
  readonly limits?: LimitOptions | undefined;
  readonly inspection?: InspectionReportOptions | undefined;
  readonly testing?: TestingOptions | undefined;
}

/** How values are kept in the memory of a process. */
export interface MemoryOptions {
  /** The most memory to take, in bytes: an estimate of what keys, values and tags take. Default: 64 MiB. */
  readonly maxBytes?: number | undefined;
  /**
   * For how long values are served without asking the store whether they were invalidated, in milliseconds: another process' invalidation may be
   * seen that much later. At most 2,000. Default: 0, so that nothing is served after it was invalidated.
   */
  readonly maxStalenessMs?: number | undefined;
}

/** How values are loaded from their sources, and how the sources are protected. */
export interface LoadOptions<Context = object> {
  /** The longest a load may take before its callers get an error. Default: 30,000. */
  readonly loadTimeoutMs?: number | undefined;
  /**
   * The most concurrent loads per coordinate and process, of which one request has at most half; a batch of a loader counts as one.
   * Default: 100.
   */
  readonly maxConcurrentLoads?: number | undefined;
  /**
   * The most loads per coordinate that wait for a free place, of which one request has at most half; further loads are refused.
   * Default: 100,000.
   */
  readonly maxQueuedLoads?: number | undefined;
  /**
   * How long a failed load is shared with later callers, randomly shortened by up to half, and how
   * long a key whose value cannot be stored is loaded by every caller. Default: 1,000.
   */
  readonly errorBackoffMs?: number | undefined;
  /**
   * How long an error is shared with later callers, in milliseconds, in the place of `errorBackoffMs`, or a function that returns it: a
   * minute for what does not exist, for example. 0: with those who wait for its load only. Undefined: `errorBackoffMs`. Shortened by the
   * `jitter` of the policy. Not asked about errors of one caller (`isCallerError`). Must be synchronous. Default: none.
   */
  readonly errorMaxAgeMs?: ErrorMaxAgeMs | undefined;
  /** Consecutive failures after which the loads of a coordinate are refused for a while. Default: no limit. */
  readonly breakerThreshold?: number | undefined;
  /**
   * Whether an error means that the source is in trouble: then a stale value is served, and `breakerThreshold` counts the
   * error. False: the source has answered that it has no value. Default: by status, code and name of the error; an error
   * that does not say counts as trouble.
   */
  readonly isSourceFailure?: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Whether an error concerns only the caller that the load was run for. That caller gets it; all others load again.
   * Default: by status, code, name and message of the error, such as FORBIDDEN or 401.
   */
  readonly isCallerError?: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Returns the signal that aborts when the request of a context is aborted, so that its abort does not become the
   * error of others. Default: `context.request.signal`, if there is one, and `info.getAbortSignal()` of graphql 17,
   * which also apply if the option is given.
   */
  readonly abortSignal?: ((context: Context) => AbortSignal | null | undefined) | undefined;
  /**
   * How long a load goes on that no request waits for any more, to be stored for the next one, before its signal aborts. For
   * sources that take longer than impatient callers wait. Default: 0.
   */
  readonly abandonedLoadMs?: number | undefined;
  /** Takes background refreshes of PUBLIC values; a worker runs them with `cache.refresh`. Default: they run in this process. */
  readonly refreshQueue?: RefreshQueue | undefined;
}

/** How long leases last, and how long callers wait for a load that another caller or process runs. */
export interface LeaseOptions {
  /** How long a lease lasts unless it is renewed: the delay before another process takes over after a crash. Default: 3,000. */
  readonly leaseMs?: number | undefined;
  /**
   * How long a caller waits for a load of another caller or process, or for an `exists` guard, before it loads itself.
   * Default: 10,000.
   */
  readonly leaseWaitMs?: number | undefined;
  /** The same for a caller that is itself part of a load. Default: 250. */
  readonly nestedWaitMs?: number | undefined;
  /** How long to wait for a fresh value before serving a stale one, where there is one. Default: no limit. */
  readonly softTimeoutMs?: number | undefined;
}

/** How the store is used. */
export interface StorageOptions {
  /** The time budget of one store operation; invalidations get ten times as much. Default: 100. */
  readonly storeTimeoutMs?: number | undefined;
  /** The largest encoded value, before compression, that is stored. Default: 1 MiB. */
  readonly maxValueBytes?: number | undefined;
  /** Encoded values larger than this are compressed where that saves space. Default: never. */
  readonly compressAboveBytes?: number | undefined;
  /**
   * Whether requests wait until what they load is stored: one more round trip, for processes that are frozen as soon as they
   * have answered. See also `cache.settled`. Default: false.
   */
  readonly storeBeforeResponse?: boolean | undefined;
}

/** How invalidations and writes are protected against late stores. */
export interface InvalidationOptions {
  /** How long after a hard invalidation nothing is stored, for databases whose replicas lag. Default: 0. */
  readonly replicaLagMs?: number | undefined;
  /** How long the keys and tags of a `cache.mutate` stay protected if its process dies during the write. Default: 3,000. */
  readonly writeGuardMs?: number | undefined;
  /**
   * Brings tags into one form, so that spellings of one id are one tag: `(tag) => tag.toLowerCase()`. Applied to every tag,
   * of values and of invalidations. Synchronous, and the same in all processes; change `version` with it. Default: none.
   */
  readonly normalizeTag?: ((tag: string) => string) | undefined;
}

/** What is checked so that private data is not shared. */
export interface PrivacyOptions {
  /**
   * Warn when a PUBLIC field reads a context property that is not part of its key, and when a load writes to the context; compare the
   * parents that share a load, and the contexts of one identity. Default: true unless NODE_ENV is production.
   */
  readonly warnOnContextReads?: boolean | undefined;
  /** Context properties that are the same for every caller, such as `["db", "log"]`. Default: none. */
  readonly sharedContextKeys?: readonly string[] | undefined;
}

/**
 * What one execution may make the cache do, so that a small request cannot multiply work or memory. Over a limit, fields
 * are not cached for the rest of the execution, which is reported once; nothing fails.
 */
export interface LimitOptions {
  /** The most bytes of arguments in the keys of an execution that are not remembered from earlier ones. Default: 4 MiB. */
  readonly maxKeyBytes?: number | undefined;
  /**
   * The most tags that templates with several lists make in an execution, and of one result. A mutation that exceeds it
   * invalidates all values whose tags begin like these. At most 10,000. Default: 1,000.
   */
  readonly maxTagCombinations?: number | undefined;
}

/** How this process reports its counts to the inspection of the others. */
export interface InspectionReportOptions {
  /**
   * Whether it reports. Default: once `inspectionResolvers` was called with this cache. Pass true for processes without it, such as
   * workers.
   */
  readonly report?: boolean | undefined;
}

/** Time and randomness as arguments, for tests. */
export interface TestingOptions {
  /** Default: the system's monotonic clock. */
  readonly clock?: Clock | undefined;
  /** Returns a number from 0 (included) to 1 (excluded). Default: the system's. */
  readonly random?: Random | undefined;
}
