/** What is at a key. Absent, the sixth state and the safest, is no entry at all. */
export type EntryState = "pending" | "value" | "failed" | "uncacheable" | "write-in-progress";

/**
 * One stored record. All instants are on the store's own clock, in milliseconds.
 * Source: `gen` and `token` follow "Scaling Memcache at Facebook", NSDI 2013, §3.2.1; the layout in bytes is in README.md beside this file.
 */
export interface Entry {
  readonly state: EntryState;
  /** Whether the value is null, undefined or an empty list. */
  readonly isNegative: boolean;
  /** Whether the last refresh failed and this stale value was put back into service. */
  readonly hasRefreshFailed: boolean;
  /** How long the load took. */
  readonly loadMs: number;
  /** The lease chain: minted at a grant, kept by whoever takes the lease over, gone with a fill or an invalidation. Empty where no lease is out. */
  readonly gen: string;
  /** Until when a lease is held (pending, value), or the state lasts (failed, pass, fenced). */
  readonly untilAt: number;
  /** 0 for a value that was outdated on demand: it is served while it is loaded again. */
  readonly freshUntilAt: number;
  /** When the lease of the load that made the value was granted: where its age counts from. */
  readonly grantedAt: number;
  /** The digest of the tag tagVersions read before that load; see `tier/request.ts`. */
  readonly signature: string;
  /** A value: what `body.ts` makes. A failure: its description. Otherwise empty. */
  readonly body: Uint8Array;
}

/** The signature of an entry without tags; eight bytes, like every signature. */
export const NO_SIGNATURE = "\0".repeat(8);
