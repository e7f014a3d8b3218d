import { deflateRawSync, inflateRawSync } from "node:zlib";
import { isTime } from "../../core/base/clock.js";
import { MAX_EVENTS, type RecentEvent } from "./recent-events.js";

/** What a process says of itself. Times are those of its clock, in milliseconds since 1970. */
export interface ProcessInfo {
  /** 16 hexadecimal digits. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
  readonly version: string;
  readonly nodeVersion: string;
  readonly startedAt: number;
  readonly reportedAt: number;
}

/** The report of a process. It has no details while nobody reads reports. Contains no user data. */
export interface ProcessReport {
  readonly info: ProcessInfo;
  readonly details?: ReportDetails | undefined;
}

export interface ReportDetails {
  /** What was counted since the start. */
  readonly total: Tallies;
  /** The same by minute of the clock, for the last ten: when it began, and what was counted in it. */
  readonly minutes: readonly (readonly [at: number, tallies: Tallies])[];
  readonly events: readonly RecentEvent[];
}

/**
 * Counts of one coordinate by name, without those that are 0, so that they can be added and subtracted: the counters,
 * `bypass.<reason>`, `loadMs.<bucket>`, and `loadMs:us`, the sum of the durations in whole microseconds.
 */
export type Tally = Readonly<Record<string, number>>;

/** Tallies by coordinate. */
export type Tallies = readonly (readonly [coordinate: string, tally: Tally])[];

export const MINUTE_MS = 60_000;

/** The version of the format. Reports of releases with another one are not read. */
const FORMAT = 1;
/** The largest report that is read. */
const MAX_TEXT_BYTES = 16 * 1024 * 1024;

/** Writes JSON, compressed: a fifth of its size. */
export const writeReport = (report: ProcessReport): Buffer =>
  deflateRawSync(JSON.stringify({ format: FORMAT, ...report }), { level: 1 });

/** Returns what anybody may have written. Undefined for what is no report of this format. */
export function readReport(bytes: Uint8Array): ProcessReport | undefined {
  try {
    const text = inflateRawSync(bytes, { maxOutputLength: MAX_TEXT_BYTES }).toString();
    const report = JSON.parse(text) as ProcessReport & { readonly format: unknown };
    const { info, details } = report;
    return report.format === FORMAT && isInfo(info) && (details === undefined || isDetails(details))
      ? { info, details }
      : undefined;
  } catch {
    return undefined;
  }
}

type Check = (value: unknown) => boolean;

const isText: Check = (value) => typeof value === "string" && value.length <= 1_000;
const isFlag: Check = (value) => typeof value === "boolean";
const isNumber: Check = (value) => Number.isFinite(value);
const isInt: Check = (value) => ((value as number) | 0) === value;
const isOptional: Check = (value) => value === null || isText(value);
const isListOf =
  (isMember: Check, max: number): Check =>
  (value) =>
    Array.isArray(value) && value.length <= max && value.every(isMember);
const isPairOf =
  (isFirst: Check, isSecond: Check): Check =>
  (value) =>
    Array.isArray(value) && isFirst(value[0]) && isSecond(value[1]);
const hasAll =
  (checks: Readonly<Record<string, Check>>): Check =>
  (value) =>
    typeof value === "object" &&
    value !== null &&
    Object.entries(checks).every(([name, isValid]) => isValid((value as Readonly<Record<string, unknown>>)[name]));

const isInfo = hasAll({
  id: (value) => /^[0-9a-f]{16}$/.test(String(value)),
  host: isText,
  pid: isInt,
  version: isText,
  nodeVersion: isText,
  startedAt: isTime,
  reportedAt: isTime,
} satisfies Record<keyof ProcessInfo, Check>);

const isTallies = isListOf(
  isPairOf(isText, (tally) => hasAll({})(tally) && Object.values(tally as object).every(isNumber)),
  20_000,
);

const isInvalidation = hasAll({
  kind: (value) => value === "HARD" || value === "SOFT",
  via: isText,
  mutation: isOptional,
  tookMs: isNumber,
  isConfirmed: isFlag,
  isClear: isFlag,
  tags: isListOf(isText, 100),
  tagCount: isInt,
  entryCount: isInt,
} satisfies Record<Exclude<keyof NonNullable<RecentEvent["invalidation"]>, "__typename">, Check>);

const isEvent = hasAll({
  name: isText,
  at: isTime,
  count: isNumber,
  coordinates: isListOf(isText, 100),
  digest: isOptional,
  node: isOptional,
  detail: isOptional,
  error: isOptional,
  invalidation: (value) => value === null || isInvalidation(value),
} satisfies Record<keyof RecentEvent, Check>);

const isDetails = hasAll({
  total: isTallies,
  minutes: isListOf(isPairOf(isTime, isTallies), 20),
  events: isListOf(isEvent, MAX_EVENTS),
} satisfies Record<keyof ReportDetails, Check>);
