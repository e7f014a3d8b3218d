import type { Cancel } from "../clock.js";
import type { Entry } from "./entry.js";

/** What a read found at one key, and the store's time when it looked. `failed`: the node that holds the key did not answer. */
export type Reading =
  | { readonly kind: "read"; readonly entry: Entry | undefined; readonly now: number }
  | { readonly kind: "failed"; readonly error: unknown };

/** Sixteen characters; or another number of them while a write bracket is open for the tag; undefined where the tag has none, or its node failed. */
export type TagVersion = string | undefined;

/** Whether a write bracket is open for the tag that has `version`. */
export const isWriteInProgress = (version: string): boolean => version.length !== 16;

/** A leaseRequest to load one key. */
export interface AcquireRequest {
  readonly key: string;
  /** The digest of the tag tagVersions the asker has read. An entry with another is as good as absent. */
  readonly signature: string;
  /** A fresh value answers the leaseRequest only if it was granted later: 0, or the `grantedAt` of a value the asker has found unusable or due. */
  readonly supersededAt: number;
}

/** What became of a leaseRequest. Instants are the store's. */
export type Grant =
  | {
      readonly kind: "granted";
      readonly gen: string;
      readonly token: string;
      readonly grantedAt: number;
      readonly isTakenOver: boolean;
    }
  | { readonly kind: "value"; readonly entry: Entry; readonly now: number }
  | { readonly kind: "busy"; readonly gen: string; readonly remainingMs: number }
  | { readonly kind: "failed"; readonly body: Uint8Array }
  | { readonly kind: "uncacheable" }
  | { readonly kind: "write-in-progress" }
  /** The leaseRequest reached the store after its asker had given up. */
  | { readonly kind: "expired" }
  /** Something that is no entry of this format is in the way; it is left alone. */
  | { readonly kind: "unknown-format" }
  | { readonly kind: "unavailable"; readonly error: unknown };

/** A held lease, as far as the store needs to know it. */
export interface Hold {
  readonly key: string;
  readonly token: string;
}

/** A loaded value on its way into the store. */
export interface StoreRequest {
  readonly key: string;
  readonly gen: string;
  readonly grantedAt: number;
  readonly loadMs: number;
  readonly isNegative: boolean;
  /** How long it is fresh, from `grantedAt` on, jitter applied. */
  readonly freshMs: number;
  /** When the store may drop it, from `grantedAt` on; undefined: never by itself. */
  readonly ttlMs: number | undefined;
  readonly body: Uint8Array;
}

/**
 * What became of a fill: `stored`; `refused`, since its lease chain is gone (invalidated, loaded, lost);
 * `expired`, since its whole time was over on arrival; `unavailable`.
 */
export type StoreOutcome = "stored" | "refused" | "expired" | "unavailable";

/** How a lease is let go without a value. */
export interface Release extends Hold {
  /**
   * `failed`: readers get this failure for `holdMs`; a stale value stays, in service for `holdMs` more. `pass`: the value cannot be stored;
   * loads pass for `holdMs`. `abandoned`: as if never asked for.
   */
  readonly outcome: "failed" | "uncacheable" | "abandoned";
  readonly holdMs: number;
  readonly body: Uint8Array;
}

/** A position in the record of recent tag invalidations: what is noted after it is later. */
export interface LogPosition {
  /** The logId of the record; another one means the record was lost in between. */
  readonly logId: string;
  readonly at: number;
}

/** Says that something happened to `key`, with the entry now there if it was small; undefined: anything may have happened to any key. */
export type Wake = (key: string | undefined, entry: Entry | undefined) => void;

/** Hears what changes in a store, whoever changes it. */
export interface ChangeListener {
  /** Something happened to `name`, an entry or a tag; undefined: anything may have happened to any name. */
  changed(name: string | undefined): void;
  /** From here on every change is told. */
  began(): void;
  /** Changes may be missed from here on, and may have been for a while: until it has begun again. */
  lost(): void;
}

/** What the cache calls the two things in a store that are neither entries nor tags. */
export interface StoreNames {
  /** The channel on which waiters are woken. */
  readonly wakeChannel: string;
  /** The record of recent tag invalidations. */
  readonly invalidationLog: string;
}

/** What differs from store to store and from deployment to deployment. */
export interface LeaseTimes {
  /** How long a lease lasts unless renewed. */
  readonly leaseMs: number;
  /** How long a pending entry is kept after its lease has ended, for others to take over. */
  readonly graceMs: number;
  /** How long the asker waits for the answer: a leaseRequest that reaches the store later is refused. */
  readonly patienceMs: number;
}

/**
 * Where entries rest: the lease protocol as operations that are atomic for each key.
 *
 * Every operation takes many keys and answers in their order and length, each key judged alone. A store keeps one clock for all its instants.
 * An operation rejects only if the store as a whole did not answer; turning that into misses is `fail-open-store`'s work.
 * Source: the state table of the lease protocol, in tier/README.md; `testing/store-conformance.ts` holds every store to it.
 */
export interface Store {
  /** What it is, for inspection: "memory", "redis", "memcached". */
  readonly name: string;
  /** Reads `keys` and the tagVersions of `tags` in one trip. */
  read(
    keys: readonly string[],
    tags: readonly string[],
  ): Promise<{ readings: readonly Reading[]; tagVersions: readonly TagVersion[] }>;
  /** The tagVersions of `tags`, made where there are none, and kept for at least `ttlMs` more. */
  ensureTags(tags: readonly string[], ttlMs: number): Promise<readonly string[]>;
  acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<readonly Grant[]>;
  storeValues(storeRequests: readonly StoreRequest[]): Promise<readonly StoreOutcome[]>;
  /** Answers which leases are still held; one that could not be asked about counts as held. */
  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]>;
  release(releases: readonly Release[]): Promise<readonly boolean[]>;
  /** Removes entries and with them the leases on them. Resolves when it is true everywhere. */
  invalidate(keys: readonly string[]): Promise<void>;
  /** Outdates values, which stay to be served while they are loaded again, and removes what is pending or failed; leases on them end. */
  softInvalidate(keys: readonly string[]): Promise<void>;
  /** Notes `tags` in the record, and after that gives them new tagVersions, except where a write bracket is open. Resolves when it is true everywhere. */
  invalidateTags(tags: readonly string[], logRetentionMs: number): Promise<void>;
  /** The current end of the record of recent tag invalidations, which is begun where there is none. */
  readLogPosition(logRetentionMs: number): Promise<LogPosition>;
  /** Whether none of `tags` has been invalidated since `position`; false also if that cannot be known. */
  areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean>;
  /** Removes what is at `names`, entries or tagVersions of tags, and keeps them from being filled while `writer` writes, `writeGuardMs` at most. */
  beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void>;
  endWrite(names: readonly string[], writer: string): Promise<void>;
  /** Tells of every change of a name that begins with `prefix`, after it has happened. Undefined where the store cannot. Answers what ends it. */
  readonly follow?: ((prefix: string, listener: ChangeListener) => Cancel) | undefined;
  /** Which part of the store has `name`, where parts can fail by themselves. */
  readonly nodeOf?: ((name: string) => string) | undefined;
  /**
   * Takes the store into use for one cache, before any other operation, and calls `wake` when a key others wait for has changed: at most once
   * for each change, perhaps never; a hint, no more. Calls `onLoss` when it
   * may have lost writes it had confirmed: its connection was gone for a while, or another node has taken over. Caches that share a store object share its names.
   * Answers what ends this use. With the last one the store lets go of what it has decoded itself; what was given to it stays open.
   */
  open(names: StoreNames, wake: Wake, onLoss?: () => void): Cancel;
}
