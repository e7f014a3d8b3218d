import type { ReportingProcess } from "../../core/store/report-store.js";
import { TOTAL } from "./own-counts.js";
import { type Counted, type ProcessInfo, readCounted, readInfo } from "./report-format.js";
import { bucketsIn, isIn, partOf, WINDOWS, type WindowName } from "./windows.js";

/** The parts of another process' report, as far as they could be read. */
export interface OtherReport extends ReportingProcess {
  readonly info: ProcessInfo | undefined;
  readonly counted: readonly Counted[];
  /** Whether this release cannot read a part that is there. */
  readonly isUnreadable: boolean;
}

/** Reads the parts of a report: what the process says of itself, and what it has counted in a window. */
export function readReport(
  process: ReportingProcess,
  info: Uint8Array | undefined,
  parts: readonly (Uint8Array | undefined)[],
  windowName: WindowName | undefined,
  now: number,
): OtherReport {
  const there = parts.filter((bytes) => bytes !== undefined);
  const counted = there.flatMap((bytes) => readCounted(bytes) ?? []);
  const description = readInfo(info);
  const isComplete =
    description !== undefined && counted.length === there.length && (windowName !== "SINCE_START" || there.length > 0);
  return {
    ...process,
    info: description,
    counted: counted.filter(
      ({ toAt }) => windowName === "SINCE_START" || windowName === undefined || isIn(WINDOWS[windowName], toAt, now),
    ),
    isUnreadable: !isComplete,
  };
}

/** Returns the names of the parts that have the counts of a window. */
export const partNamesOf = (windowName: WindowName, now: number): string[] =>
  windowName === "SINCE_START"
    ? [TOTAL]
    : bucketsIn(WINDOWS[windowName], now).map((bucket) => partOf(WINDOWS[windowName], bucket));

/** Returns whether a process should have reported again by now, but has not. */
export const isDead = ({ info, reportedAt }: OtherReport, now: number): boolean =>
  now - reportedAt > (info?.reportEveryMs ?? 0) + LATE_MS;

/** Returns what an answer lacks of a process. Undefined: nothing but what it counts until its next report. */
export function missingOf(report: OtherReport, now: number): string | undefined {
  const { info, isUnreadable } = report;
  if (info === undefined) return "everything: its report is not in the store, or is of a release with another format";
  if (isUnreadable) return "some of its counts: they are not in the store, or of a release with another format";
  if (info.isClosed || !isDead(report, now)) return undefined;
  return `what it has counted after its last report, in ${info.reportEveryMs} ms at most: it ended without closing the cache`;
}

export const INFO = "info";

/** How much later than its interval a report may arrive: timers are late, and the store takes its time. */
const LATE_MS = 2_000;
