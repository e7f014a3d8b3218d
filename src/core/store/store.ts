import type { Cancel } from "../base/clock.js";
import { optionInvalid } from "../base/errors.js";
import type { ConnectionUse } from "../telemetry/events.js";
import type { Entry } from "./entry.js";

/**
 * Where entries and the invalidation clock are kept: the lease protocol as atomic operations.
 * Implement this interface to run the cache on another server.
 *
 * **State table.** `transitions` holds the rules for entries as pure functions; PROTOCOL.md is the
 * same table in words. A store applies them atomically for each key: it reads the entry, computes
 * the next one and writes it, with no other write to that key in between (a server-side script, or
 * compare-and-swap with a retry). Atomicity across keys is never needed.
 *
 * **Batches.** Results have the order and length of the arguments. Every request is decided alone:
 * one refused or failed key does not affect the others. If a key occurs twice in one call, its
 * requests apply one after the other.
 *
 * **Names.** Keys, the clock and the channel never share a name. Names consist of visible ASCII
 * characters. Byte strings (`gen`, `token`, `epoch`) hold one byte
 * per character, as in `latin1`, and must be returned unchanged.
 *
 * **Clock.** All instants are milliseconds on the store's clock: the server's for a remote store.
 * If the store has several nodes, each key uses the clock of its own node. The clock of the calling
 * process must not decide when a lease or a value ends.
 *
 * **Failures.** Reading, acquiring, storing, renewing and releasing report the failure of one node
 * in the results of its keys, and reject only if every node failed. All other operations reject if
 * they did not complete on every node involved; the cache repeats invalidations until they are
 * confirmed. A store does not limit the time of an operation: the cache bounds every call, counts
 * failures per node (`nodeOf`) and treats them as misses. An error with the property
 * `isMissingRight` (true) says that the server does not allow the operation to this user, which
 * `cache.health()` shows.
 *
 * **Idempotency.** The cache and clients that resend unanswered commands may run any operation
 * twice, at any later time. A second `storeValues` is refused, a second `release` returns false,
 * and all other writes may be repeated without harm. A repeated `acquire` may return the same grant
 * again or `busy`; two requests of the cache never get the same token, and a lease chain that has
 * ended never returns.
 *
 * **Loss.** A store may lose anything at any time. An absent entry is always safe. The clock has no
 * expiry. A clock that is lost begins another epoch, which makes every entry absent. A store that
 * loses all of its copies makes every entry absent.
 *
 * `storeConformance` from `@graphql-cached/testing` tests these rules.
 */
export interface Store {
  /** The kind of the store, shown by the inspection: "memory", "redis", "memcached", "sqlite". */
  readonly name: string;
  /** Whether other processes share the data: `createCache` then needs a `prefix`. Default: true. */
  readonly isShared?: boolean | undefined;
  /**
   * Reads the entries at `keys` and the head of the invalidation clock, in one round trip. Changes
   * nothing. The head is not older than the call: every invalidation that was confirmed before is
   * in it, or in a later one that a process already knows. Without keys, it reads the head alone.
   */
  read(keys: readonly string[]): Promise<StoreRead>;
  /**
   * Appends records to the invalidation clock in one atomic step, as `appendToClock` does; a clock
   * that is not there, or not whole, begins a new epoch. Without records, it returns the head that
   * is there, or that of a new epoch. `records`: as `writeRecord` returns them. Resolves to the
   * head when every read shows it, or a later one. Rejects if that is not certain. `lostEpoch`: one
   * whose log the caller could not read; if it is still that of the clock, a new one begins.
   */
  appendClock(records: readonly Buffer[], lostEpoch?: string): Promise<Buffer>;
  /** Reads the log of the clock from one of its bytes on. Undefined if there is none. */
  readClock(from: number): Promise<Buffer | undefined>;
  /**
   * Requests leases. See rows 1 to 9 of PROTOCOL.md. `holder`: 8 bytes that identify the caller's
   * process. Tokens should end with them, and a `gen` begin with the time in microseconds (u64, big
   * endian): the inspection then shows who holds a lease, and since when. `origin`: what the caller
   * knows of the clock.
   */
  acquire(
    requests: readonly AcquireRequest[],
    times: LeaseTimes,
    origin: ClockOrigin,
    holder?: string,
  ): Promise<readonly Grant[]>;
  /** Stores values whose lease chain is alive, and ends it. See rows 10 and 11 of PROTOCOL.md. */
  storeValues(requests: readonly StoreRequest[]): Promise<readonly StoreOutcome[]>;
  /**
   * Extends leases to `leaseMs` from now. Returns for each whether its caller still holds it, and
   * true if that is unknown: the next renewal decides. See row 12 of PROTOCOL.md.
   */
  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]>;
  /**
   * Ends leases without a value. Returns for each whether its caller held it; nothing changes where
   * it did not. See rows 13 to 15 of PROTOCOL.md.
   */
  release(releases: readonly Release[]): Promise<readonly boolean[]>;
  /**
   * Removes the entries at `keys`, of any format, and with them their leases. Nothing depends on
   * it: it frees the memory of what has been invalidated, and wakes those who wait for its loads.
   * See row 16 of PROTOCOL.md.
   *
   * `soft`: ends all leases at `keys`, so late stores are refused, for a caller who wants a value
   * that is loaded now. Makes values stale but keeps them to be served meanwhile, and removes
   * entries of all other states. Resolves when every node has confirmed. See row 17.
   */
  remove(keys: readonly string[], options?: { readonly soft?: boolean }): Promise<void>;
  /**
   * Keeps the report of a process for the inspection, in the place of its earlier one, for `ttlMs`
   * from now. `process`: letters and digits. Resolves to whether the reports were read in the last
   * `REPORTS_WANTED_MS`. Nothing that is served depends on reports, and a store may lose them.
   * Undefined, like `readReports`, if the store keeps none; the inspection then shows one process
   * only.
   */
  readonly writeReport?: ((process: string, report: Uint8Array, ttlMs: number) => Promise<boolean>) | undefined;
  /** Returns the reports of all processes, and notes that they are wanted. */
  readonly readReports?: (() => Promise<readonly Uint8Array[]>) | undefined;
  /**
   * Returns the id of the node that holds `name`. Undefined if the store is one node. With it, the
   * cache calls the store once for each node, so that a failing node affects only its own keys. An
   * empty id for all names whose node is not known yet.
   */
  readonly nodeOf?: ((name: string) => string) | undefined;
  /** Returns the id of the node with the log of the clock. Undefined if there is one node. */
  readonly clockNode?: (() => string) | undefined;
  /**
   * Returns what is known of the connection to a node, when an operation takes long or has failed.
   * Undefined: nothing is.
   */
  readonly connectionTo?: ((node: string) => ConnectionState) | undefined;
  /**
   * Takes the store into use for one cache. Called before any other operation, and once for each
   * cache that shares the store object; a store may refuse caches with different `names`.
   *
   * Returns a function that ends this use. Ending the last use closes what the store has opened
   * itself; a client that was passed to the store stays open.
   */
  open(names: StoreNames, listener: StoreListener): Cancel;
}

/**
 * The result of reading one key. `read`: the entry at the key, or undefined if the key is absent,
 * and the time on the clock of the node that holds the key. `foreignBytes`: how many bytes are
 * there in the place of an entry, so that they are not read again and again. `failed`: that node
 * did not reply.
 */
export type Reading =
  | {
      readonly kind: "read";
      readonly entry: Entry | undefined;
      readonly now: number;
      readonly foreignBytes?: number | undefined;
    }
  | { readonly kind: "failed"; readonly error: unknown };

/** Under which state of the invalidation clock a load begins, or was stored: see clock-log.ts. */
export interface ClockOrigin {
  /** 8 bytes, as in `latin1`. */
  readonly epoch: string;
  readonly position: number;
}

/** A request for the lease on one key. */
export interface AcquireRequest {
  readonly key: string;
  /**
   * The latest position at which one of the tags known before the load was invalidated, or before
   * which the log has dropped records. An entry, or a lease, from an earlier position counts as
   * absent, and so does one of another epoch than that of the call.
   */
  readonly oldestPosition: number;
  /**
   * A fresh value is returned instead of a lease only if its `grantedAt` is later than this. The
   * caller sets it to the `grantedAt` of a value that it cannot use or that is due for a refresh,
   * and to 0 if any fresh value will do.
   */
  readonly supersededAt: number;
  /**
   * Whether the caller has found the value that it supersedes to be invalidated, softly or by a tag
   * of the value, or too old, although the pause after a failed refresh is not over. The value then
   * becomes stale with the grant, so that a failed load is not repeated at once. Default: false.
   */
  readonly endsFreshness?: boolean;
}

/** The result of one lease request. All instants are on the store's clock. */
export type Grant =
  /**
   * The caller holds the lease and must store a value or release it. `token` identifies this
   * acquisition: 16 bytes, unique for every grant, even to the same process. `gen` is the lease
   * chain: that of an expired lease that is taken over, and a new one otherwise.
   * `grantedAt`: at least 1/1024 of a millisecond later than that of the value at the key.
   */
  | {
      readonly kind: "granted";
      readonly gen: string;
      readonly token: string;
      readonly grantedAt: number;
      /**
       * The position from which the load counts: that of the call, or of the store's clock if that
       * is earlier. A takeover keeps that of its chain, whose first holder may still store its
       * value.
       */
      readonly position: number;
    }
  /** A fresh value is there; nothing was granted. */
  | { readonly kind: "value"; readonly entry: Entry; readonly now: number }
  /** Another caller holds the lease of `gen`, for at least `remainingMs` unless it is released. */
  | { readonly kind: "busy"; readonly gen: string; readonly remainingMs: number }
  /** A load failed recently; `body` is the description that its holder gave. */
  | { readonly kind: "failed"; readonly body: Uint8Array }
  /** The value cannot be stored. The entry says why; the caller loads without a lease. */
  | { readonly kind: "uncacheable" }
  /** The request came after `patienceMs`, or the clock has another epoch; nothing was granted. */
  | { readonly kind: "expired" }
  /** The key holds data of another format, which was left as it is; nothing was granted. */
  | { readonly kind: "unknown-format" }
  /** The node that holds the key failed. It is unknown whether a lease was granted. */
  | { readonly kind: "unavailable"; readonly error: unknown };

/** A lease held by the caller. */
export interface Hold {
  readonly key: string;
  /** `token` of the grant. */
  readonly token: string;
}

/** A loaded value to be stored under a lease. */
export interface StoreRequest {
  readonly key: string;
  /** `gen` of the grant. */
  readonly gen: string;
  /** `grantedAt` of the grant, unchanged: the age of a value is measured on the store's clock. */
  readonly grantedAt: number;
  readonly loadMs: number;
  readonly isNegative: boolean;
  /**
   * How long the value is fresh, counted from `grantedAt`. Jitter is already applied. If
   * `grantedAt` and this together are negative, only those who wait for the load may use the value.
   */
  readonly freshMs: number;
  /**
   * When the store drops the value, counted from `grantedAt`; an integer. 0: nothing is stored
   * (`expired`). Undefined: it never expires; the store drops it only if it needs the memory.
   */
  readonly ttlMs: number | undefined;
  readonly body: Uint8Array;
}

/**
 * The result of storing one value.
 *
 * - `stored`: the value is stored and the lease has ended.
 * - `refused`: the lease chain is gone, because the key was invalidated, stored or lost. Nothing
 *   changed.
 * - `expired`: `ttlMs` was over on arrival. Nothing is stored and the lease has ended.
 * - `unavailable`: the node that holds the key failed, or cannot take the value.
 */
export type StoreOutcome = "stored" | "refused" | "expired" | "unavailable";

/** The end of a lease without a value. */
export interface Release extends Hold {
  /**
   * - `failed`: the load failed. A pending entry becomes `failed` for `holdMs`, with `body` as the
   *   description. A stale value stays and is served for another `holdMs`; a value that is still
   *   fresh stays unchanged.
   * - `gone`: the load failed since there is no value any more, or in the place of one that nobody
   *   may be served. As `failed`, but a stale value becomes `failed` as well.
   * - `uncacheable`: the value cannot be stored. The entry, also a stale value, is replaced by one
   *   that is `uncacheable` for `holdMs`, with `body` saying why.
   * - `abandoned`: as if the lease had never been granted. `holdMs` and `body` are ignored.
   */
  readonly outcome: "failed" | "gone" | "uncacheable" | "abandoned";
  readonly holdMs: number;
  readonly body: Uint8Array;
}

/** The end of a lease as if it had never been granted. */
export const ABANDONED: LeaseEnd = { outcome: "abandoned", holdMs: 0, body: new Uint8Array() };

export type LeaseEnd = Omit<Release, keyof Hold>;

/** What a store tells a cache from `open` on: hints that may be late, repeated, lost or forged. */
export interface StoreListener {
  readonly wake: Wake;
  /** Undefined: no value in memory counts without a read, so the cache does not want to know. */
  readonly clockChanged?: ClockListener | undefined;
  /** The store is connected again, so what failed before says nothing about the next operation. */
  readonly reconnected?: (() => void) | undefined;
  /** A connection of the store's own cannot be used, or can again. Once for each change. */
  readonly connectionChanged?: ((change: ConnectionFailure) => void) | undefined;
}

/**
 * Called when the entry at `key` has changed and thereby the lease chain `gen` has ended. `entry`
 * is the entry that is there now, if it was small enough to be sent along; only the value or the
 * failure that the load of this chain has produced may be sent, since waiters of `gen` use it
 * without reading the store. Without `gen`, or with another one, waiters read the store. `key` is
 * undefined when any key may have changed, for example after a reconnect. Waiters poll as well.
 */
export type Wake = (key: string | undefined, entry: Entry | undefined, gen?: string | undefined) => void;

/**
 * Called soon after the invalidation clock has changed, whichever process has changed it, with its
 * head. Undefined: messages may have been lost, for example after a reconnect. If a store has no
 * messages, memory with `maxStalenessMs` learns of invalidations when the process asks, every half
 * second.
 */
export type ClockListener = (head: Buffer | undefined) => void;

/** What is known of the connection to a node. */
export interface ConnectionState {
  /**
   * Why there is none, such as a refused connection or a wrong password. It is added to the error
   * of an operation that fails meanwhile.
   */
  readonly error?: Error | undefined;
  /**
   * How many bytes have arrived so far, on the connection that reads use, or anything else that
   * changes as replies arrive. While it does, an operation has up to ten time budgets: a large
   * value on a slow network is not an outage. Undefined: not known.
   */
  readonly received?: unknown;
}

/** A connection opened by the store itself. `error`: why it cannot be used; undefined: it can. */
export interface ConnectionFailure {
  readonly use: ConnectionUse;
  /** The node that it leads to. Empty if the store is one node, or if any node will do. */
  readonly node: string;
  readonly error: Error | undefined;
}

/** The names of the objects in a store that are neither entries nor tags. */
export interface StoreNames {
  /** The channel on which waiters are woken. */
  readonly wakeChannel: string;
  /** What the names of reports begin with. */
  readonly reports: string;
  /** The invalidation clock. Stores that need several names for it let all begin with this. */
  readonly clock: string;
}

/** Throws `CACHED_OPTION_INVALID` if a store was opened under another name, of another prefix. */
export function checkPrefix(opened: string | undefined, name: string, factory: string): void {
  if (opened === undefined || opened === name) return;
  throw optionInvalid(
    `createCache: \`store\`: expected a store that no cache with another \`prefix\` uses, got one in use; create a ${factory} for each prefix`,
  );
}

/** The durations that govern leases, in milliseconds. `leaseMs` and `graceMs` are integers. */
export interface LeaseTimes {
  /** How long a lease lasts unless it is renewed. */
  readonly leaseMs: number;
  /** For how long a pending entry outlives its lease, so that another caller can take it over. */
  readonly graceMs: number;
  /**
   * How long the caller waits for the result. A lease request that reaches the store later must be
   * answered `expired`, since a lease granted to a caller that has given up would block all others.
   */
  readonly patienceMs: number;
}

/** The result of `Store.read`: one reading per key, and the head of the clock. */
export interface StoreRead {
  readonly readings: readonly Reading[];
  /** See clock-log.ts. Undefined: there is none, or it could not be read. */
  readonly clock: Buffer | undefined;
}

/** For how long processes write whole reports after somebody has read them. */
export const REPORTS_WANTED_MS = 30_000;
