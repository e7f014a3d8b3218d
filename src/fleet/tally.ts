import { COUNTERS, type Counters, type Counts } from "../telemetry/counters.js";

/** Counts of one coordinate by name, without those that are 0: see `tallyOf`. */
export type Tally = Readonly<Record<string, number>>;

/** Tallies by coordinate. What belongs to no coordinate is under the empty one. */
export type Tallies = Map<string, Tally>;

/** What is counted for the process as a whole is under this coordinate. */
const NO_COORDINATE = "";

/**
 * Returns the counts of a coordinate in a flat form that can be added and subtracted by name: the counters,
 * `bypass.<reason>`, `observed.<name>`, and of durations `<name>.<bucket>` and `<name>Sum`.
 */
export function tallyOf(counts: Counts): Tally {
  const tally: Record<string, number> = {};
  for (const name of COUNTERS) if (counts[name] !== 0) tally[name] = counts[name];
  for (const [reason, reads] of counts.bypasses) tally[`bypass.${reason}`] = reads;
  for (const [name, count] of Object.entries(counts.observed ?? {})) if (count !== 0) tally[`observed.${name}`] = count;
  for (const name of ["loadMs", "waitMs"] as const) {
    for (const [bucket, times] of counts[name].buckets) tally[`${name}.${bucket}`] = times;
    if (counts[name].sumMs !== 0) tally[`${name}Sum`] = counts[name].sumMs;
  }
  return tally;
}

/** Returns everything that a process has counted since it started. */
export function talliesOf(counters: Counters): Tallies {
  const tallies: Tallies = new Map();
  for (const [coordinate, counts] of counters.all()) tallies.set(coordinate, tallyOf(counts));
  if (counters.storeFailures > 0) tallies.set(NO_COORDINATE, { storeFailures: counters.storeFailures });
  return tallies;
}

/** Returns what has been counted since `before`; empty if nothing has. */
export function since(before: Tallies, now: Tallies): Tallies {
  const news: Tallies = new Map();
  for (const [coordinate, tally] of now) {
    const old = before.get(coordinate) ?? {};
    const changed = Object.entries(tally).filter(([name, count]) => count !== old[name]);
    if (changed.length === 0) continue;
    news.set(coordinate, Object.fromEntries(changed.map(([name, count]) => [name, count - (old[name] ?? 0)])));
  }
  return news;
}

/** Adds tallies to others. */
export function addTallies(to: Tallies, tallies: Tallies): void {
  for (const [coordinate, tally] of tallies) to.set(coordinate, sumOf([to.get(coordinate) ?? {}, tally]));
}

/** Returns the sum of tallies, by name. */
export function sumOf(tallies: Iterable<Tally>): Tally {
  const sum: Record<string, number> = {};
  for (const tally of tallies) for (const [name, count] of Object.entries(tally)) sum[name] = (sum[name] ?? 0) + count;
  return sum;
}

/** Returns the counts whose names begin with `prefix`, by the rest of the name. */
export const countsUnder = (tally: Tally, prefix: string): [rest: string, count: number][] =>
  Object.entries(tally).flatMap(([name, count]) =>
    name.startsWith(prefix) ? [[name.slice(prefix.length), count]] : [],
  );
