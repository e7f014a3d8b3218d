/**
 * The state of an entry. A key without an entry is absent, the state that every loss
 * of an entry leads to.
 *
 * - `pending`: a lease is granted and no value is stored yet.
 * - `value`: a value is stored. A lease for its refresh may be granted at the same time.
 * - `failed`: the load failed. The failure is shared until `untilAt`.
 * - `uncacheable`: the value cannot be stored, for the reason in `body`. No lease is granted until
 *   `untilAt`.
 */
export type EntryState = "pending" | "value" | "failed" | "uncacheable";

/**
 * One entry as readers see it. Instants (`...At`) are milliseconds on the store's clock and may be
 * fractional. `gen` and `epoch` are byte strings: one character per byte, as in `latin1`.
 *
 * Source: `gen` and `token` follow the leases of "Scaling Memcache at Facebook", NSDI 2013, §3.2.1.
 */
export interface Entry {
  readonly state: EntryState;
  /** Whether the value is null, undefined or an empty list. */
  readonly isNegative: boolean;
  /** Whether the last refresh failed, so that this stale value is served until `freshUntilAt`. */
  readonly hasRefreshFailed: boolean;
  /** How long the load took, in milliseconds. */
  readonly loadMs: number;
  /**
   * The id of the lease chain, 16 bytes. A grant on an absent entry or on a value without a lease
   * creates it, and a takeover of an expired lease keeps it. Storing a value, releasing the lease
   * and removing the entry end it; an invalidation of a tag or of a whole field does not. Empty
   * while no lease is outstanding.
   */
  readonly gen: string;
  /** The token of the lease holder, 16 bytes, for the inspection only. Empty without a lease. */
  readonly token?: string | undefined;
  /** Whether a caller was told `busy`, and waits. Only the inspection reads it. */
  readonly hasWaiters?: boolean | undefined;
  /** When the lease (`pending`, `value`) or the state (all others) ends; 0 without a lease. */
  readonly untilAt: number;
  /**
   * When the value becomes stale. 0 after a soft invalidation, and once a load has taken the lease
   * because the value was invalidated, or too old: its age and its tags say whether it may still be
   * served.
   */
  readonly freshUntilAt: number;
  /** When the lease of the value's load was granted. The age of a value counts from here. */
  readonly grantedAt: number;
  /** The epoch of the invalidation clock under which the load began, 8 bytes. */
  readonly epoch: string;
  /**
   * The position of the clock from which the entry counts: of a pending entry, that of its lease.
   * What was invalidated later has outdated it.
   */
  readonly position: number;
  /** The same of the lease on a value. 0 without one. */
  readonly leasePosition?: number | undefined;
  /**
   * Of a value, the bytes of `StoreRequest.body`; of a failure or an uncacheable entry, the bytes
   * of `Release.body`; otherwise meaningless. Opaque to the store.
   */
  readonly body: Uint8Array;
}

/** The epoch of an entry that belongs to no lease. */
export const NO_EPOCH = "\0".repeat(8);

/** The body of an `uncacheable` entry whose value is too large. Readers may share its loads. */
export const TOO_LARGE_MARK: Uint8Array = Uint8Array.of(1);

/** The same of one that cannot be encoded, or depends on more than any key: nothing is shared. */
export const UNSERIALIZABLE_MARK: Uint8Array = Uint8Array.of(2);

/** The same of one whose load has asked not to store its result. */
export const SKIPPED_MARK: Uint8Array = Uint8Array.of(3);

/** Whether readers can share the loads of an `uncacheable` entry: its value can be encoded. */
export const areLoadsShareable = ({ body }: Entry): boolean =>
  body.length === 1 && (body[0] === TOO_LARGE_MARK[0] || body[0] === SKIPPED_MARK[0]);

/** Whether only those who wait for the load of a value may use it, since it is not kept. */
export const isForWaiters = ({ freshUntilAt }: Pick<Entry, "freshUntilAt">): boolean => freshUntilAt < 0;

export const freshMsForWaiters = (grantedAt: number): number => -grantedAt - 1;
