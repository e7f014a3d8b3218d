/** A part of the report of one process. */
export interface ReportPart {
  /** Visible ASCII characters without spaces. */
  readonly name: string;
  readonly bytes: Uint8Array;
  /** How long the part is kept from now on. */
  readonly keepMs: number;
}

/** What a process has to say since its last report. */
export interface ProcessReport {
  /** The id of the process: letters, digits, `-` and `_`. */
  readonly process: string;
  /** Larger in every later report of the process. */
  readonly sequence: number;
  readonly parts: readonly ReportPart[];
}

/** What a store answers to every report. */
export interface ReportReply {
  /** The time on the store's clock. All reports of a store share one clock, as far as its nodes do. */
  readonly now: number;
  /** Until when processes are asked to count more than usual, on the same clock; 0 if they are not. */
  readonly askedUntilAt: number;
}

/** What it answers to a report. */
export interface WriteReply extends ReportReply {
  /** Whether the store did not know the process: it is its first report, or the store has lost the earlier ones. */
  readonly isFirst: boolean;
}

/** A process that has reported. */
export interface ReportingProcess {
  readonly id: string;
  /** When the store has received its last report, on the store's clock. */
  readonly reportedAt: number;
}

/**
 * Where processes leave reports for each other, such as statistics. A report consists of parts, each of
 * which replaces the one that the process has written under the same name before, and expires by itself. Losing reports
 * costs nothing but what they say.
 *
 * **Idempotency.** A report that is written again, at any later time, replaces no part of a report with a larger
 * `sequence`.
 */
export interface ReportStore {
  /** Writes a report, in one round trip to one node, and notes that the process has reported. */
  write(report: ProcessReport): Promise<WriteReply>;
  /** Returns the processes that have reported in the last 70 minutes, the last ones first, 1,000 at most. */
  list(): Promise<ReportReply & { readonly processes: readonly ReportingProcess[] }>;
  /** Returns parts of the reports of a process, undefined for those that are not there. */
  read(
    wanted: readonly { readonly process: string; readonly part: string }[],
  ): Promise<readonly (Uint8Array | undefined)[]>;
  /** Asks all processes to count more than usual for `ms` from now: see `ReportReply.askedUntilAt`. */
  ask(ms: number): Promise<void>;
}

export const REPORTS_KEPT_MS = 70 * 60_000;
export const MAX_REPORTING = 1_000;

/** Returns the reply of a store whose processes were asked to count more until `askedUntilAt`, which may be over. */
export const replyAt = (now: number, askedUntilAt: number): ReportReply => ({
  now,
  askedUntilAt: askedUntilAt > now ? askedUntilAt : 0,
});

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
