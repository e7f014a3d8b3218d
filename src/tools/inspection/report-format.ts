import { deflateRawSync, inflateRawSync } from "node:zlib";
import { isObject } from "../../core/base/built-in.js";
import { isTime } from "../../core/base/clock.js";
import type { RecentEvent } from "./recent-events.js";

/** Times are those of the process, in milliseconds since 1970. */
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
  readonly total: Tallies;
  /** The same by minute of the clock, for the last ten: when it began, and its counts. */
  readonly minutes: readonly (readonly [at: number, tallies: Tallies])[];
  readonly events: readonly RecentEvent[];
}

/**
 * Counts of one coordinate by name, without those that are 0, so that they can be added and
 * subtracted: the counters, `bypass.<reason>`, `loadMs.<bucket>`, and `loadMs:us`, the sum of the
 * durations in whole microseconds.
 */
export type Tally = Readonly<Record<string, number>>;

export type Tallies = readonly (readonly [coordinate: string, tally: Tally])[];

export const MINUTE_MS = 60_000;

/** The version of the format. Reports of releases with another one are not read. */
const FORMAT = 1;
const MAX_TEXT_BYTES = 16 * 1024 * 1024;
/** How much text is read for one answer; the last report may go beyond it. */
const MAX_INFLATED_BYTES = 64 * 1024 * 1024;
/** Deflated bytes become at most so many each. */
const MAX_INFLATION = 1_032;

/** JSON, compressed to a fifth. */
export const writeReport = (report: ProcessReport): Buffer =>
  deflateRawSync(JSON.stringify({ format: FORMAT, ...report }), { level: 1 });

/**
 * Returns the reports in what anybody may have written, without what is none of this format. `now`:
 * the time of day, in milliseconds since 1970. `isCut`: it stops once 64 MB were inflated.
 */
export function readReports(
  written: readonly Uint8Array[],
  now: number,
): { readonly reports: readonly ProcessReport[]; readonly isCut: boolean } {
  const reports: ProcessReport[] = [];
  let inflated = 0;
  for (const bytes of written) {
    if (inflated >= MAX_INFLATED_BYTES) return { reports, isCut: true };
    try {
      const text = inflateRawSync(bytes, { maxOutputLength: MAX_TEXT_BYTES });
      inflated += text.length;
      const report = JSON.parse(text.toString()) as ProcessReport;
      if (!hasForm(report, REPORT)) continue;
      const { info, details } = report;
      // Clocks differ, and minutes to come would take the places of others.
      const minutes = details?.minutes.filter(([at]) => at <= now + MINUTE_MS) ?? [];
      reports.push({ info, details: details && { ...details, minutes } });
    } catch (error) {
      // How much was inflated before it failed is not known.
      if (!(error instanceof SyntaxError)) inflated += Math.min(MAX_TEXT_BYTES, bytes.length * MAX_INFLATION);
    }
  }
  return { reports, isCut: false };
}

/**
 * Returns whether a value has the form of an example: strings, bounded, for a string; finite
 * numbers for a number; the same members for an object; a bounded list of the same for a list; what
 * a function returns true for; and for null, null or a string.
 */
function hasForm(value: unknown, form: unknown): boolean {
  if (typeof form === "function") return form(value) === true;
  if (form === null) return value === null || hasForm(value, "");
  if (Array.isArray(form))
    return Array.isArray(value) && value.length <= MAX_MEMBERS && value.every((one) => hasForm(one, form[0]));
  if (typeof form === "object")
    return isObject(value) && Object.entries(form).every(([name, one]) => hasForm(value[name], one));
  if (typeof value === "string") return typeof form === "string" && value.length <= MAX_TEXT_LENGTH;
  return typeof value === typeof form && (typeof value !== "number" || isTime(value));
}

const MAX_MEMBERS = 20_000;
const MAX_TEXT_LENGTH = 1_000;

const isInt = (value: unknown): boolean => ((value as number) | 0) === value;
/** Sums of a thousand processes are finite. Durations of loads at once add up to more than time. */
const isTally = (value: unknown): boolean =>
  isObject(value) &&
  Object.entries(value).every(
    ([name, count]) =>
      Number.isSafeInteger(count) &&
      (count as number) >= 0 &&
      (name === "loadMs:us" || (count as number) <= MAX_COUNT) &&
      (!name.startsWith("loadMs.") || BUCKET.test(name)),
  );
const MAX_COUNT = 1e13;
const BUCKET = /^loadMs\.\d{1,3}$/;
const TALLIES = [{ 0: "", 1: isTally }];

const INVALIDATION = {
  kind: (value: unknown) => value === "HARD" || value === "SOFT",
  ...{ via: "", mutation: null, tookMs: 0, isConfirmed: true, isClear: true, tags: [""] },
  ...{ tagCount: isInt, entryCount: isInt },
};

const EVENT = {
  ...{ name: "", at: 0, count: 0, coordinates: [""], digest: null, node: null, detail: null, error: null },
  invalidation: (value: unknown) => value === null || hasForm(value, INVALIDATION),
};

const DETAILS = { total: TALLIES, minutes: [{ 0: 0, 1: TALLIES }], events: [EVENT] };

const REPORT = {
  format: (value: unknown) => value === FORMAT,
  info: { id: "", host: "", pid: isInt, version: "", nodeVersion: "", startedAt: 0, reportedAt: 0 },
  details: (value: unknown) => value === undefined || hasForm(value, DETAILS),
};
