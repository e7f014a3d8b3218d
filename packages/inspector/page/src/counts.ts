/** Sums of counts, and what is computed from them. */
import { type Counts, type Minute, OUTCOMES, type Series } from "./types.js";

export const NAMES = [...OUTCOMES, "reads", "bypassedOnPurpose", "loads", "failedLoads"] as const;

/** The time that numbers are about. */
export const WINDOWS = { minutes: "the last ten minutes", start: "since the start" } as const;
export type Window = keyof typeof WINDOWS;

/** Returns the counts of a window. */
export function countsIn(series: Series | undefined, window: Window): Counts {
  if (series !== undefined && window === "start") return series.sinceStart;
  const sum = Object.fromEntries(NAMES.map((name) => [name, 0])) as Record<keyof Counts, number>;
  for (const { count } of series?.minutes ?? []) for (const name of NAMES) sum[name] += count[name];
  return sum;
}

/** Returns the share of the reads that needed no load of their own, of all that were not bypassed on purpose. Undefined: none were. */
export function servedWithoutLoad({ reads, bypassedOnPurpose, hit, stale, coalesced }: Counts): number | undefined {
  const wanted = reads - bypassedOnPurpose;
  return wanted > 0 ? (hit + stale + coalesced) / wanted : undefined;
}

const MINUTE_MS = 60_000;
const SHOWN_MINUTES = 10;

/** Returns the last ten minutes of the clock, the present one last, also those without counts. */
export function lastMinutes(minutes: readonly Minute[], now: number): readonly { at: number; count: Counts }[] {
  const known = new Map(minutes.map(({ at, count }) => [Math.floor(Date.parse(at) / MINUTE_MS), count]));
  const none = countsIn(undefined, "minutes");
  // The clock of the server can be ahead of that of the browser.
  const last = Math.max(Math.floor(now / MINUTE_MS), ...known.keys());
  return Array.from({ length: SHOWN_MINUTES }, (_, nth) => {
    const minute = last - SHOWN_MINUTES + 1 + nth;
    return { at: minute * MINUTE_MS, count: known.get(minute) ?? none };
  });
}

/** Returns labels from 0 up at equal steps of whole numbers, the last of which is at least `max`. */
export function axisSteps(max: number): readonly number[] {
  const rough = Math.max(1, max / 4);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough) as number;
  return Array.from({ length: Math.max(1, Math.ceil(max / step)) + 1 }, (_, nth) => nth * step);
}

/** Returns a label of an axis. It is exact: steps are 1, 2 or 5 times a power of ten. */
export function axisLabel(value: number, max: number): string {
  const [divisor, unit] = max < 10_000 ? [1, ""] : max < 1e6 ? [1e3, " k"] : [1e6, " M"];
  return `${Number((value / (divisor as number)).toPrecision(12)).toLocaleString("en")}${value === 0 ? "" : unit}`;
}
