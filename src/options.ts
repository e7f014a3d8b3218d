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

/** Options of `createCache`. Durations are in milliseconds; those of policies in seconds. */
export interface CacheOptions<Context = object> {
  /** Where entries are kept. Default: a memory store of this process. */
  readonly store?: Store | undefined;
  /**
   * The first part of every key. Caches with the same store and prefix share their entries, PRIVATE
   * ones included, so give each application its own. Required with a store that other processes can
   * use. Default: `gc`.
   */
  readonly prefix?: string | undefined;
  /**
   * Entries of another version are not served. Change it when values change in a way that no schema
   * shows. Default: none.
   */
  readonly version?: string | undefined;
  /** Returns the identity that PRIVATE values belong to. Null, undefined: they are not cached. */
  readonly identify?: ((context: Context) => string | number | bigint | null | undefined) | undefined;
  /**
   * The scope of fields and loaders that declare none. Fields below a PRIVATE field are PRIVATE in
   * any case, and those under an auth mark must declare theirs. Default: none, all must.
   */
  readonly defaultScope?: "PUBLIC" | "PRIVATE" | undefined;
  /** The policy of all cached fields and loaders, unless they set something else. Default: none. */
  readonly defaults?: Omit<PolicySettings, "key" | "tags" | "version" | "scope"> | undefined;
  /**
   * Keeps values in the process, and serves them once a read of the store has shown that they were
   * not invalidated. False: reads every value from the store. Default: on, with 64 MiB.
   */
  readonly memory?: MemoryOptions | false | undefined;
  /** Called with every event. Exceptions that it throws are ignored. Default: none. */
  readonly onEvent?: Listener | undefined;
  /** Receives the few events worth a log line. Default: `console`. */
  readonly logger?: Logger | undefined;
  /** Encodes values as text or bytes. Default: JSON with Date, BigInt, Map, Set and Buffer. */
  readonly codec?: Codec | undefined;
  /** How instances of classes are encoded and written into keys, by name. Default: not cached. */
  readonly types?: ValueTypes | undefined;
  /** Keys for AES-256-GCM: the first one encrypts, all decrypt. Default: no encryption. */
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
  /** Maximum memory for keys, values and tags, in bytes, estimated. Default: 64 MiB. */
  readonly maxBytes?: number | undefined;
  /**
   * How long values are served without asking the store whether another process has invalidated
   * them. At most 2,000. Default: 0.
   */
  readonly maxStalenessMs?: number | undefined;
}

/** How values are loaded from their sources, and how the sources are protected. */
export interface LoadOptions<Context = object> {
  /** Maximum time of a load before its callers get an error. Default: 30,000. */
  readonly loadTimeoutMs?: number | undefined;
  /**
   * Maximum concurrent loads per coordinate and process, half of them for one request. A batch
   * counts as one. Default: 100.
   */
  readonly maxConcurrentLoads?: number | undefined;
  /**
   * Maximum loads per coordinate that wait for a free place, half of them for one request; more are
   * refused. Default: 100,000.
   */
  readonly maxQueuedLoads?: number | undefined;
  /**
   * How long a failed load is shared with later callers, shortened by up to half, and a key whose
   * value cannot be stored is loaded by every caller. Default: 1,000.
   */
  readonly errorBackoffMs?: number | undefined;
  /**
   * How long errors are shared instead, shortened by `jitter`, or a synchronous function of the
   * error that returns it; undefined: `errorBackoffMs`. 0: only with callers that wait for the
   * load. Default: none.
   */
  readonly errorMaxAgeMs?: ErrorMaxAgeMs | undefined;
  /** Failures in a row after which loads of a coordinate are refused for a while. Default: none. */
  readonly breakerThreshold?: number | undefined;
  /**
   * Returns whether an error is a failure of its source: a stale value is then served, and
   * `breakerThreshold` counts the error. Default: by status, code and name; unknown errors are
   * failures.
   */
  readonly isSourceFailure?: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Returns whether an error concerns only the caller that the load ran for; all others load again.
   * Default: by status, code, name and message, such as 401.
   */
  readonly isCallerError?: ((error: unknown, coordinate: string) => boolean) | undefined;
  /**
   * Returns the signal that aborts with the request of a context, besides `context.request.signal`
   * and, with graphql 17, `info.getAbortSignal()`. Default: none.
   */
  readonly abortSignal?: ((context: Context) => AbortSignal | null | undefined) | undefined;
  /**
   * How long a load that no request waits for goes on, to be stored for the next one, before its
   * signal aborts. Default: 0.
   */
  readonly abandonedLoadMs?: number | undefined;
  /**
   * Takes background refreshes of PUBLIC values, which a worker runs with `cache.refresh`. Default:
   * this process runs them.
   */
  readonly refreshQueue?: RefreshQueue | undefined;
}

/** How long leases last, and how long callers wait for loads of others. */
export interface LeaseOptions {
  /**
   * How long a lease lasts unless it is renewed: the delay before another process takes over after
   * a crash. Default: 3,000.
   */
  readonly leaseMs?: number | undefined;
  /**
   * How long a caller waits for a load of another caller or process, or for an `exists` guard,
   * before it loads itself. Default: 10,000.
   */
  readonly leaseWaitMs?: number | undefined;
  /** The same for a caller that is itself part of a load. Default: 250. */
  readonly nestedWaitMs?: number | undefined;
  /** How long to wait for a fresh value before serving a stale one. Default: no limit. */
  readonly softTimeoutMs?: number | undefined;
}

/** How the store is used. */
export interface StorageOptions {
  /** Time budget of a store operation; invalidations get ten times as much. Default: 100. */
  readonly storeTimeoutMs?: number | undefined;
  /** Maximum size of a stored value, encoded, before compression. Default: 1 MiB. */
  readonly maxValueBytes?: number | undefined;
  /** Compresses larger encoded values if that saves space. Default: never. */
  readonly compressAboveBytes?: number | undefined;
  /**
   * Makes requests wait until what they load is stored, for processes that are frozen after they
   * have answered. See also `cache.settled`. Default: false.
   */
  readonly storeBeforeResponse?: boolean | undefined;
}

/** How invalidations and writes are protected against late stores. */
export interface InvalidationOptions {
  /** How long nothing is stored after a hard invalidation, if database replicas lag. Default: 0. */
  readonly replicaLagMs?: number | undefined;
  /** How long a `cache.mutate` protects its keys and tags if its process dies. Default: 3,000. */
  readonly writeGuardMs?: number | undefined;
  /**
   * Brings tags of values and invalidations into one form, such as `(tag) => tag.toLowerCase()`.
   * Synchronous, and the same in all processes; change `version` with it. Default: none.
   */
  readonly normalizeTag?: ((tag: string) => string) | undefined;
}

/** What is checked so that private data is not shared. */
export interface PrivacyOptions {
  /**
   * Warns of PUBLIC loads that read context properties outside of their key, loads that write to
   * the context, and parents or contexts that differ for one value. Default: true unless NODE_ENV
   * is production.
   */
  readonly warnOnContextReads?: boolean | undefined;
  /** Context properties that all callers have in common, such as `["db", "log"]`. Default: none. */
  readonly sharedContextKeys?: readonly string[] | undefined;
}

/**
 * What one execution may make the cache do, so that a small request cannot multiply work or memory.
 * Over a limit, fields are not cached for the rest of the execution, which is reported once;
 * nothing fails.
 */
export interface LimitOptions {
  /** Maximum bytes of arguments in the new keys of an execution. Default: 4 MiB. */
  readonly maxKeyBytes?: number | undefined;
  /**
   * Maximum tags that templates with several lists make in an execution, and of one result. A
   * mutation above it invalidates all tags that begin like these. At most 10,000. Default: 1,000.
   */
  readonly maxTagCombinations?: number | undefined;
}

/** How this process reports its counts to the inspection of the others. */
export interface InspectionReportOptions {
  /**
   * Reports to the inspection of other processes. Default: once `inspectionResolvers` was called;
   * pass true in workers without it.
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
