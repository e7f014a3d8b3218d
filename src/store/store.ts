import type { Cancel } from "../clock.js";
import type { ConnectionUse } from "../telemetry/events.js";
import type { Entry } from "./entry.js";
import type { History, HistoryLimits } from "./history.js";
import type { ReportStore } from "./report-store.js";

/**
 * The result of reading one key. `read`: the entry at the key, or undefined if the key is absent,
 * and the time on the clock of the node that holds the key. `failed`: that node did not reply.
 */
export type Reading =
  | { readonly kind: "read"; readonly entry: Entry | undefined; readonly now: number }
  | { readonly kind: "failed"; readonly error: unknown };

/**
 * The version of a tag: a string of 16 bytes (one character per byte, as in `latin1`) that the tag
 * never had before and never gets again, followed by 16 such bytes for the last soft invalidation
 * since, if there was one. While a write to the tag is in progress, a string of any
 * other length stands in for the version. Undefined if the tag has no version, if its key holds
 * something else, or if its node did not reply: the cache treats all of these as a change of the
 * tag, so a lost version costs loads and never serves a stale value.
 */
export type TagVersion = string | undefined;

/** Stands in for the version of a tag while a write to it is in progress. */
export const WRITE_IN_PROGRESS = "write-in-progress";

/** Returns whether `version` says that a write to its tag is in progress: it is not as long as a version. */
export const isWriteInProgress = (version: string): boolean => version.length !== 16 && version.length !== 32;

/** Returns the part of a tag's version that a hard invalidation changes. */
export const hardPartOf = (version: string): string => (version.length === 32 ? version.slice(0, 16) : version);

/** Returns the part of a tag's version that a soft invalidation changes. Empty if there was none. */
export const softPartOf = (version: string): string => (version.length === 32 ? version.slice(16) : "");

/** A request for the lease on one key. */
export interface AcquireRequest {
  readonly key: string;
  /**
   * 8 bytes, opaque to the store: the digest of what the control record says of the key, and of the
   * names and versions of its static tags, as the caller has read them. An entry with another
   * signature counts as absent.
   */
  readonly signature: string;
  /**
   * A fresh value is returned instead of a lease only if its `grantedAt` is later than this. The
   * caller sets it to the `grantedAt` of a value that it cannot use or that is due for a refresh,
   * and to 0 if any fresh value will do.
   */
  readonly supersededAt: number;
  /**
   * Whether the caller has found the value that it supersedes to be invalidated softly. The value then
   * becomes stale with the grant, so that a failed refresh of it is not repeated at once. Default: false.
   */
  readonly endsFreshness?: boolean;
}

/** The result of one lease request. All instants are on the store's clock. */
export type Grant =
  /**
   * The caller holds the lease and must store a value or release it. `token` identifies this
   * acquisition: 16 bytes, unique for every grant, even to the same process. `gen` is the lease
   * chain: new for a new chain, and the previous holder's if `isTakenOver`.
   */
  | {
      readonly kind: "granted";
      readonly gen: string;
      readonly token: string;
      readonly grantedAt: number;
      readonly isTakenOver: boolean;
    }
  /** A fresh value is there; nothing was granted. */
  | { readonly kind: "value"; readonly entry: Entry; readonly now: number }
  /**
   * Another caller holds the lease of chain `gen`, for at least `remainingMs` unless it is released
   * earlier.
   */
  | { readonly kind: "busy"; readonly gen: string; readonly remainingMs: number }
  /** A load failed recently; `body` is the description that its holder gave. */
  | { readonly kind: "failed"; readonly body: Uint8Array }
  /** The value cannot be stored. The entry says why; the caller loads without a lease. */
  | { readonly kind: "uncacheable" }
  /** A write is in progress; the caller loads without a lease and stores nothing. */
  | { readonly kind: "write-in-progress" }
  /** The request reached the store after `LeaseTimes.patienceMs`; nothing was granted. */
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
  /**
   * `grantedAt` of the grant, returned unchanged, so that the age of the value is measured on the
   * store's clock only.
   */
  readonly grantedAt: number;
  readonly loadMs: number;
  readonly isNegative: boolean;
  /**
   * How long the value is fresh, counted from `grantedAt`. Jitter is already applied. If `grantedAt` and this together are
   * negative, only those who wait for the load may use the value.
   */
  readonly freshMs: number;
  /**
   * When the store drops the value, counted from `grantedAt`; an integer. 0: nothing is stored (`expired`).
   * Undefined: it never expires; the store drops it only if it needs the memory.
   */
  readonly ttlMs: number | undefined;
  /**
   * Undefined: the stored value is still current, so it keeps its body and `isNegative`. Refused if the
   * entry holds no value.
   */
  readonly body: Uint8Array | undefined;
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
   * - `gone`: the load failed since there is no value any more. As `failed`, but a stale value becomes
   *   `failed` as well.
   * - `uncacheable`: the value cannot be stored. The entry, also a stale value, is replaced by one
   *   that is `uncacheable` for `holdMs`, with `body` saying why.
   * - `abandoned`: as if the lease had never been granted. `holdMs` and `body` are ignored.
   */
  readonly outcome: "failed" | "gone" | "uncacheable" | "abandoned";
  readonly holdMs: number;
  readonly body: Uint8Array;
}

/** The end of a lease as if it had never been granted. */
export const abandon = ({ key, token }: Hold): Release => ({
  key,
  token,
  outcome: "abandoned",
  holdMs: 0,
  body: new Uint8Array(),
});

/**
 * A position in the invalidation logs: the end of each, by the name of the log. A log whose node did
 * not reply is missing. What an end is made of is up to the store; it consists of visible ASCII
 * characters and spaces, so that a position can be sent to another process as JSON.
 */
export type LogPosition = Readonly<Record<string, string>>;

/** Finds out which confirmed invalidations a store has lost. */
export interface LossCheck {
  /** Resolves when the check has ended. Never rejects. */
  readonly ended: Promise<void>;
  /**
   * Returns whether an invalidation of a key or tag, made before the check, may be lost. True until
   * the opposite is proved.
   */
  mayBeLost(name: string): boolean;
}

/** Called when the store may have lost invalidations that it had confirmed. */
export type LossListener = (check: LossCheck) => void;

/**
 * Called when the entry at `key` has changed and thereby the lease chain `gen` has ended. `entry` is
 * the entry that is there now, if it was small enough to be sent along; only the value or the
 * failure that the load of this chain has produced may be sent, since waiters of `gen` use it without
 * reading the store. Without `gen`, or with another one, waiters read the store. `key` is undefined
 * when any key may have changed, for example after a reconnect.
 */
export type Wake = (key: string | undefined, entry: Entry | undefined, gen?: string | undefined) => void;

/** Receives the changes of a store, no matter which process makes them. */
export interface ChangeListener {
  /** The entry or tag `name` has changed. Undefined: any name may have changed. */
  changed(name: string | undefined): void;
  /** From now on, every change is reported. */
  began(): void;
  /**
   * Every change up to `agoMs` milliseconds ago has been reported. A store calls it at least once a
   * second while it reports changes; without it, nothing derived from reports is used after two
   * seconds.
   */
  confirmed(agoMs: number): void;
  /**
   * From now on, changes may be missed, and some may have been missed already, until the next
   * `began`.
   */
  lost(): void;
}

/**
 * The control record of a prefix: which epochs and variants count, in `content`, which stores do not
 * read. `version` is a string of 16 bytes, as in `latin1`: the time in microseconds (u64, big endian)
 * and 8 bytes that never come back. A later version is larger, compared byte by byte, and a version
 * that was replaced never returns.
 */
export interface VersionedControl {
  readonly version: string;
  readonly content: Uint8Array;
}

/**
 * The result of reading one copy of the control record. `record` is undefined if there is no copy,
 * or if it cannot be read as one. `failed`: the node that holds it did not reply.
 */
export type ControlReading =
  | { readonly kind: "read"; readonly record: VersionedControl | undefined }
  | { readonly kind: "failed"; readonly error: unknown };

/** The names of the objects in a store that are neither entries nor tags. */
export interface StoreNames {
  /** The channel on which waiters are woken. */
  readonly wakeChannel: string;
  /**
   * The log of recent tag invalidations. A store that keeps several logs, or other records of
   * invalidations, lets all of their names begin with this.
   */
  readonly invalidationLog: string;
  /** The control record. A store that needs several names for it lets all of them begin with this. */
  readonly controlRecord: string;
}

/** The durations that govern leases, in milliseconds. `leaseMs` and `graceMs` are integers. */
export interface LeaseTimes {
  /** How long a lease lasts unless it is renewed. */
  readonly leaseMs: number;
  /**
   * How long a pending entry is kept after its lease has ended, so that another caller can take the
   * chain over.
   */
  readonly graceMs: number;
  /**
   * How long the caller waits for the result. A lease request that reaches the store later must be
   * answered `expired`, since a lease granted to a caller that has given up would block all others.
   */
  readonly patienceMs: number;
}

/** The result of `Store.read`: one reading per key, one version per tag, and the control version. */
export interface StoreRead {
  readonly readings: readonly Reading[];
  readonly tagVersions: readonly TagVersion[];
  readonly controlVersion: string | undefined;
}

/**
 * What a server, or the one node of a store, says of itself. A store leaves out what it does not know. Contains no
 * names of entries and no values.
 */
export interface StoreReport {
  /** The program and its version, such as `redis 7.2.4`. */
  readonly version?: string | undefined;
  /** What the server says of its part in replication, such as `master`. */
  readonly role?: string | undefined;
  /** The number of keys, those of other applications included. */
  readonly entries?: number | undefined;
  /** The memory in use. */
  readonly usedBytes?: number | undefined;
  /** The most memory that the server uses. Undefined: there is no limit. */
  readonly maxBytes?: number | undefined;
  /** What is dropped if there is no memory, such as `allkeys-lru`. */
  readonly evictionPolicy?: string | undefined;
  /** The number of entries dropped for lack of memory since the server started. */
  readonly evictions?: number | undefined;
}

/** A connection that a store has opened for itself. `error`: why it cannot be used; undefined: it can again. */
export interface ConnectionFailure {
  readonly use: ConnectionUse;
  /** The node that it leads to. Empty if the store is one node, or if any node will do. */
  readonly node: string;
  readonly error: Error | undefined;
}

/** Learns what becomes of a store's connections. */
export interface ConnectionListener {
  /** The store is connected again, so what failed before says nothing about the next operation. */
  onReconnect(): void;
  /** A connection of the store's own cannot be used, or can again. Once for each change. */
  onOwn(failure: ConnectionFailure): void;
}

/**
 * Where entries and tag versions are kept: the lease protocol as atomic operations. Implement this
 * interface to run the cache on another server.
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
 * **Names.** Keys, tags, the log, the channel and the control record never share a name. Names consist of visible ASCII
 * characters. Byte strings (`gen`, `token`, `signature`, tag versions, writer ids) hold one byte
 * per character, as in `latin1`, and must be returned unchanged.
 *
 * **Clock.** All instants are milliseconds on the store's clock: the server's for a remote store.
 * If the store has several nodes, each key uses the clock of its own node. The clock of the calling
 * process must not decide when a lease or a value ends.
 *
 * **Failures.** Reading, acquiring, storing, renewing and releasing report the failure of one node
 * in the results of its keys, and reject only if every node failed; `readControl` reports it in the
 * results of its copies. All other operations reject if
 * they did not complete on every node involved; the cache repeats invalidations until they are
 * confirmed. A store does not limit the time of an operation: the cache bounds every call, counts
 * failures per node (`nodeOf`) and treats them as misses.
 *
 * **Idempotency.** The cache and clients that resend unanswered commands may run any operation
 * twice, at any later time. A second `storeValues` is refused, a second `release` returns false, a
 * `beginWrite` after the `endWrite` of its writer does nothing, and all other writes may be repeated
 * without harm. A repeated `acquire` may return the same grant again or `busy`; two requests of the
 * cache never get the same token, and a lease chain that has ended never returns.
 *
 * **Loss.** A store may lose anything at any time. An absent entry is always safe. A tag version
 * must never return to an earlier value, also if the command that set it is carried out again. The
 * control record has no expiry. A store that loses all of its copies makes every entry absent.
 *
 * `storeConformance` from `graphql-cached/testing` tests these rules.
 */
export interface Store {
  /** What kind of store it is, as shown by the inspection: "memory", "redis", "memcached". */
  readonly name: string;
  /**
   * Whether other processes can read and write the same data. `createCache` then insists on a `prefix`.
   * Default: true.
   */
  readonly isShared?: boolean | undefined;
  /**
   * How many tags `invalidateTags` changes in one step at most, so that no read sees some of them changed and others not. Undefined:
   * reads may.
   */
  readonly tagsAtOnce?: number | undefined;
  /**
   * Reads the entries at `keys` and the versions of `tags`, in one round trip. Changes nothing.
   * `controlVersion` is the version of any copy of the control record, read in the same round trip
   * and not before the call; the largest one if several were read. Undefined if no copy was found:
   * the cache then reads the record itself, which costs a round trip and nothing else.
   */
  read(keys: readonly string[], tags: readonly string[]): Promise<StoreRead>;
  /**
   * Returns the names of the copies of the control record, always the same ones in all processes. One
   * is enough for a single node; a store with several nodes keeps at least one on each, so that a read
   * of any node can include a version. The first is the one that `replaceControl` changes.
   */
  controlCopies(): readonly string[];
  /**
   * Reads copies of the control record, each with its content. A record is returned only if `read`
   * shows its version from then on: a copy that shows another version is repaired first. A version that
   * is more than a day ahead of the store's clock counts as none, here and in all other methods: no
   * later one could replace it.
   */
  readControl(copies: readonly string[]): Promise<readonly ControlReading[]>;
  /**
   * Replaces the first copy if its version is `expected` (undefined: if there is none), in one atomic
   * step. The new version is made in this step, and is larger than the replaced one. Returns it, or
   * undefined if the copy has another version; in that case nothing has changed. A call that is
   * carried out again later finds another version and changes nothing; one that expected no record may
   * write its content again, under another version, if the record was lost meanwhile.
   */
  replaceControl(expected: string | undefined, content: Uint8Array): Promise<string | undefined>;
  /**
   * Writes `record` to each of `copies` that has a smaller version or none; a copy with the same or a
   * larger version stays. Resolves when every copy has this version or a larger one.
   */
  raiseControl(copies: readonly string[], record: VersionedControl): Promise<void>;
  /**
   * Returns the versions of `tags`, creating new ones where none exist, and keeps them for at least
   * another `ttlMs`; undefined: they do not expire. The time that a version has left is never
   * shortened. A store should keep versions for twice `ttlMs` and prolong them only when less than
   * `ttlMs` is left, since near caches take every change of a tag for an invalidation. Returns the
   * stand-in for a tag with a write in progress. Rejects if a version could not be read or created.
   */
  ensureTags(tags: readonly string[], ttlMs: number | undefined): Promise<readonly string[]>;
  /**
   * Requests leases. See rows 1 to 10 of PROTOCOL.md. `holder`: 8 bytes that identify the caller's process. Tokens should
   * end with them, and a `gen` begin with the time in microseconds (u64, big endian): the inspection then shows who holds
   * a lease, and since when.
   */
  acquire(requests: readonly AcquireRequest[], times: LeaseTimes, holder?: string): Promise<readonly Grant[]>;
  /**
   * Stores values whose lease chain is still alive, and ends it. See rows 11 and 12 of PROTOCOL.md.
   */
  storeValues(requests: readonly StoreRequest[]): Promise<readonly StoreOutcome[]>;
  /**
   * Extends leases to `leaseMs` from now. Returns for each whether its caller still holds it, and
   * true if that is unknown: the next renewal decides. See row 13 of PROTOCOL.md.
   */
  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]>;
  /**
   * Ends leases without a value. Returns for each whether its caller held it; nothing changes where
   * it did not. See rows 14 to 16 of PROTOCOL.md.
   */
  release(releases: readonly Release[]): Promise<readonly boolean[]>;
  /**
   * Removes the entries at `keys`, of any format, and with them their leases, so that a value
   * loaded before is refused later. A write in progress stays. Resolves when every node has
   * confirmed. See rows 17 and 21 of PROTOCOL.md.
   */
  invalidate(keys: readonly string[]): Promise<void>;
  /**
   * Makes values stale but keeps them to be served while they are loaded again, and removes entries
   * of all other states, except a write in progress. Ends all leases, so late stores are refused.
   * Resolves when every node has confirmed. See row 18 of PROTOCOL.md.
   */
  softInvalidate(keys: readonly string[]): Promise<void>;
  /**
   * Appends `tags` to their invalidation logs, and then gives them new versions. The order matters: a
   * process that stores a value reads the versions first and the log second, so at least one of the
   * two shows it the invalidation. A tag without a version needs none, and a tag with a write in
   * progress keeps its stand-in. Anything else at the key of a tag is replaced by a version. Rejects
   * if the log or a version could not be written; a store may still change the versions if the log
   * cannot be written. The log should remember the invalidation for the longest `logRetentionMs`
   * that any process has passed to this method or to `readLogPosition`: processes may have different
   * settings. Resolves when every node has confirmed.
   *
   * `isSoft`: each tag keeps the first 16 bytes of its version and gets 16 new ones after them.
   */
  invalidateTags(tags: readonly string[], logRetentionMs: number, isSoft?: boolean): Promise<void>;
  /**
   * Returns the names of the invalidation logs, always the same ones in all processes. One is enough
   * for a single node. A store with several nodes keeps the log of a tag on the node of the tag (for
   * a tag of this cache, `nodeOf` its log is `nodeOf` the tag), so that a node that is lost affects
   * its own tags only, and takes the log and the versions that it has lost together.
   */
  invalidationLogs(): readonly string[];
  /**
   * Returns the current ends of `logs`, and starts those that do not exist. A log that could not be
   * read is missing; rejects if none could be read. The caller will compare with this position for
   * up to `logRetentionMs`.
   */
  readLogPosition(logs: readonly string[], logRetentionMs: number): Promise<LogPosition>;
  /**
   * Returns whether none of `tags` has been invalidated since `position`. Returns false if that is
   * unknown: `position` lacks the log of a tag, the log was lost or does not contain its end at
   * `position` any more, or it may have dropped a later invalidation, which it must record whenever it
   * drops one.
   */
  areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean>;
  /**
   * Marks `names`, keys and tags alike, as being written by `writer` (16 bytes): removes the entry
   * or tag version, and until `endWrite` no lease is granted and nothing is stored there. The mark
   * of a writer ends by itself `writeGuardMs` from now, or later if it already had a later end: a
   * repeated call renews it. Each writer has an end of its own, and the name is marked until the last. The id of a writer is used for one write only. Resolves when every node has confirmed. See row 19 of PROTOCOL.md.
   */
  beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void>;
  /**
   * Removes `writer` from the marks at `names`. A mark without writers is removed, so an entry
   * becomes absent and a tag gets a new version on its next use. See row 20 of PROTOCOL.md.
   */
  endWrite(names: readonly string[], writer: string): Promise<void>;
  /**
   * Appends to the history of invalidations, which the inspection reads, and drops the oldest parts beyond `limits`. The
   * history is for people: nothing that is served depends on it, and a store may lose it. Rejects if it was not written.
   * Undefined, like `readHistory`, if the store keeps none; each process then remembers its own invalidations only.
   */
  readonly appendHistory?: ((content: Uint8Array, limits: HistoryLimits) => Promise<void>) | undefined;
  /** Returns the history. Rejects if it could not be read. */
  readonly readHistory?: (() => Promise<History>) | undefined;
  /**
   * Reports to `listener` every change of a name that starts with `prefix`, after it has happened.
   * Returns a function that ends the reports. Undefined if the store cannot report changes; the
   * near cache is then not available.
   */
  readonly follow?: ((prefix: string, listener: ChangeListener) => Cancel) | undefined;
  /**
   * Returns the id of the node that holds `name`. Undefined if the store is one node. With it, the
   * cache calls the store once for each node, so that a failing node affects only its own keys.
   */
  readonly nodeOf?: ((name: string) => string) | undefined;
  /**
   * Returns why the store is not connected to a node, such as a refused connection or a wrong
   * password; undefined if it is. It is added to the error of an operation that fails meanwhile.
   */
  readonly connectionError?: ((node: string) => Error | undefined) | undefined;
  /**
   * Returns whether an error of an operation says that the server does not allow it to this user. It
   * then fails until somebody has granted the right, which `cache.health()` shows.
   */
  readonly isMissingRight?: ((error: unknown) => boolean) | undefined;
  /**
   * Reports what becomes of the store's connections, from before `open` on. Returns a function that
   * ends the reports. Undefined if the store does not know.
   */
  readonly watchConnections?: ((listener: ConnectionListener) => Cancel) | undefined;
  /**
   * Returns how many bytes have arrived from a node so far, on the connection that reads use, or anything else that changes
   * as replies arrive. While it does, an operation has up to ten time budgets: a large value on a slow network is not an
   * outage. Undefined: not known.
   */
  readonly receivedFrom?: ((node: string) => unknown) | undefined;
  /**
   * Returns the ids of all nodes, as `nodeOf` returns them. Needed for `inspect` if there is `nodeOf`. Undefined: the
   * store is one node, whose id is empty.
   */
  readonly nodes?: (() => readonly string[]) | undefined;
  /**
   * Asks a node for its state, for the inspection. Changes nothing. Rejects if the node does not say; the message of
   * the error is shown as the reason.
   */
  readonly inspect?: ((node: string) => Promise<StoreReport>) | undefined;
  /**
   * Where processes leave reports for each other. Undefined if the store keeps none; the inspection then
   * shows one process only.
   */
  readonly reports?: ReportStore | undefined;
  /**
   * Takes the store into use for one cache. Called before any other operation, and once for each
   * cache that shares the store object; a store may refuse caches with different `names`.
   *
   * `wake` is called when a key with waiters has changed. It is a hint: it may be late, repeated or
   * lost, since waiters poll as well. `onLoss` is called when invalidations that the store had
   * confirmed may be lost: the connection was interrupted, or another node took over. The cache then
   * repeats its invalidations of the last minute, except those that the store proves to be there.
   *
   * Returns a function that ends this use. Ending the last use closes what the store has opened
   * itself; a client that was passed to the store stays open.
   */
  open(names: StoreNames, wake: Wake, onLoss?: LossListener): Cancel;
}
