import type { Durations } from "../../core/telemetry/counters.js";
import { COUNTERS, type Counters, type Counts } from "../../core/telemetry/counters.js";

/** Counts of one coordinate by name, without those that are 0: see `tallyOf`. */
export type Tally = Readonly<Record<string, number>>;

/** Tallies by coordinate. What belongs to no coordinate is under the empty one. */
export type Tallies = ReadonlyMap<string, Tally>;

export type SumOfTallies = Map<string, Record<string, number>>;

const NOTHING: Tally = {};

/** What is counted for the process as a whole is under this coordinate. */
const NO_COORDINATE = "";

/**
 * Returns the counts of a coordinate in a flat form that can be added and subtracted by name: the counters,
 * `bypass.<reason>`, and of durations `<name>.<bucket>` and `<name>:us`, the sum in whole microseconds.
 */
export function tallyOf(counts: Counts): Tally {
  const tally: Record<string, number> = {};
  for (const name of COUNTERS) if (counts[name] !== 0) tally[name] = counts[name];
  for (const [reason, reads] of counts.bypasses) tally[`bypass.${reason}`] = reads;
  addDurations(tally, "loadMs", counts.loadMs);
  addDurations(tally, "waitMs", counts.waitMs);
  return tally;
}

function addDurations(tally: Record<string, number>, name: string, { buckets, sumMs }: Durations): void {
  for (const [bucket, times] of buckets) tally[`${name}.${bucket}`] = times;
  const sumUs = Math.round(sumMs * 1000);
  if (sumUs !== 0) tally[`${name}:us`] = sumUs;
}

/** Returns everything that a process has counted since it started. */
export function talliesOf(counters: Counters): Tallies {
  const tallies = new Map<string, Tally>();
  for (const [coordinate, counts] of counters.all()) tallies.set(coordinate, tallyOf(counts));
  if (counters.storeFailures > 0) tallies.set(NO_COORDINATE, { storeFailures: counters.storeFailures });
  return tallies;
}

/** Returns what has been counted since `before`; empty if nothing has. */
export function since(before: Tallies, now: Tallies): Tallies {
  const news = new Map<string, Tally>();
  for (const [coordinate, tally] of now) {
    const old = before.get(coordinate) ?? NOTHING;
    let changed: Record<string, number> | undefined;
    for (const name in tally) {
      const more = (tally[name] as number) - (old[name] ?? 0);
      if (more === 0) continue;
      changed ??= {};
      changed[name] = more;
    }
    if (changed !== undefined) news.set(coordinate, changed);
  }
  return news;
}

/** Adds tallies to others, which nothing else may refer to. */
export function addTallies(to: SumOfTallies, tallies: Tallies): void {
  for (const [coordinate, tally] of tallies) {
    const sum = to.get(coordinate);
    if (sum === undefined) to.set(coordinate, { ...tally });
    else addTally(sum, tally);
  }
}

export function sumOf(tallies: Iterable<Tally>): Tally {
  const sum: Record<string, number> = {};
  for (const tally of tallies) addTally(sum, tally);
  return sum;
}

/** Thousands of numbers are added with every report, so nothing is copied. */
function addTally(sum: Record<string, number>, tally: Tally): void {
  for (const name in tally) sum[name] = (sum[name] ?? 0) + (tally[name] as number);
}

/** Returns the counts whose names begin with `prefix`, by the rest of the name. */
export const countsUnder = (tally: Tally, prefix: string): [rest: string, count: number][] =>
  Object.entries(tally).flatMap(([name, count]) =>
    name.startsWith(prefix) ? [[name.slice(prefix.length), count]] : [],
  );
