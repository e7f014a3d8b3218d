/** The history of invalidations, as stores keep it. */

/** A part of a history, as a process has appended it. What it contains is up to the cache. */
export interface HistoryPart {
  /** When the store received it, on the store's clock. */
  readonly at: number;
  readonly content: Uint8Array;
}

/** What a store remembers of the parts that were appended to it. */
export interface History {
  /** The time on the clock of the history's node. */
  readonly now: number;
  /** No part that was appended later than this is missing. The same as `now` if nothing is known. */
  readonly since: number;
  /** Oldest first. A part may be there twice, since clients resend commands. */
  readonly parts: readonly HistoryPart[];
}

/** How much a store remembers. */
export interface HistoryLimits {
  /** The most bytes of all parts, each with `HISTORY_OVERHEAD_BYTES`. */
  readonly maxBytes: number;
  /** How long a part is kept, in milliseconds. */
  readonly keepMs: number;
}

/** What a part takes besides its content, estimated. */
export const HISTORY_OVERHEAD_BYTES = 128;
