import { optionInvalid } from "../../core/base/errors.js";
import { getOrMake } from "../../core/base/multimap.js";
import { COUNTERS, type Counters, percentileOf } from "../../core/telemetry/counters.js";
import { BYPASS_REASONS } from "../../core/telemetry/events.js";
import type { CacheCount, CacheCountSeries, CacheCounts, CacheDurations } from "../../generated/schema.js";
import { MINUTE_MS, type ProcessReport, type Tallies, type Tally } from "./report-format.js";

export const talliesOf = (counters: Counters): Tallies =>
  Array.from(counters.all(), ([coordinate, counts]) => {
    const tally: Record<string, number> = {};
    for (const name of COUNTERS) if (counts[name] !== 0) tally[name] = counts[name];
    for (const [reason, reads] of counts.bypasses) tally[`bypass.${reason}`] = reads;
    for (const [bucket, times] of counts.loadMs.buckets) tally[`loadMs.${bucket}`] = times;
    const sumUs = Math.round(counts.loadMs.sumMs * 1000);
    if (sumUs !== 0) tally["loadMs:us"] = sumUs;
    return [coordinate, tally] as const;
  });

export function since(before: Tallies, now: Tallies): Tallies {
  const old = new Map(before);
  return now.flatMap(([coordinate, tally]) => {
    const earlier = old.get(coordinate) ?? {};
    const more = Object.entries(tally).flatMap(([name, count]) =>
      count === earlier[name] ? [] : [[name, count - (earlier[name] ?? 0)] as const],
    );
    return more.length === 0 ? [] : [[coordinate, Object.fromEntries(more)] as const];
  });
}

/** `process`: the id of the only one that is wanted; null: all. */
export function describeCounts(reports: readonly ProcessReport[], process: string | null, now: number): CacheCounts {
  const wanted = reports.filter(({ info }) => process === null || info.id === process);
  if (wanted.length === 0)
    throw optionInvalid("cacheInspection.counts: `process`: expected the id of a process in `processes`, got another");
  const known = wanted.flatMap(({ details }) => details ?? []);
  const total: Sums = new Map();
  const sums = new Map<string, Sums>();
  for (const details of known) {
    const minutes = details.minutes.filter(([at]) => at > now - 10 * MINUTE_MS);
    for (const [at, tallies] of [[undefined, details.total] as const, ...minutes])
      for (const [coordinate, tally] of tallies)
        for (const to of [getOrMake(sums, coordinate, () => new Map()), total]) {
          const sum = getOrMake(to, at, () => ({}));
          for (const name in tally) sum[name] = (sum[name] ?? 0) + (tally[name] ?? 0);
        }
  }
  return {
    since: new Date(Math.min(...wanted.map(({ info }) => info.startedAt))).toISOString(),
    processes: known.length,
    total: seriesOf(null, total),
    fields: [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([coordinate, sum]) => seriesOf(coordinate, sum)),
  };
}

/** By the beginning of the minute; undefined: since the start. */
type Sums = Map<number | undefined, Record<string, number>>;

/** The counts of many fields are many objects: they are made only if they are asked for. */
const seriesOf = (coordinate: string | null, sums: Sums): CacheCountSeries => ({
  coordinate,
  get sinceStart() {
    return countOf(sums.get(undefined) ?? {});
  },
  get minutes() {
    return [...sums]
      .flatMap(([at, tally]) => (at === undefined ? [] : [{ at: new Date(at).toISOString(), count: countOf(tally) }]))
      .sort((a, b) => (a.at < b.at ? -1 : 1));
  },
});

function countOf(tally: Tally): CacheCount {
  type Counted = Record<(typeof COUNTERS)[number], number>;
  const counters = Object.fromEntries(COUNTERS.map((name) => [name, tally[name] ?? 0])) as Counted;
  // A newer release may report reasons that this one does not know.
  const bypasses = BYPASS_REASONS.map((reason) => ({ reason, reads: tally[`bypass.${reason}`] ?? 0 }))
    .filter(({ reads }) => reads > 0)
    .sort((a, b) => b.reads - a.reads);
  const bypassedOnPurpose = (tally["bypass.REQUESTED"] ?? 0) + (tally["bypass.MODE_OFF"] ?? 0);
  const { reads, hit, stale, coalesced } = counters;
  const wanted = reads - bypassedOnPurpose;
  const servedWithoutLoad = wanted <= 0 ? null : (hit + stale + coalesced) / wanted;
  return { ...counters, bypassedOnPurpose, bypasses, servedWithoutLoad, loadMs: durationsOf(tally) };
}

function durationsOf(tally: Tally): CacheDurations {
  const buckets = new Map(
    Object.entries(tally).flatMap(([name, times]) =>
      name.startsWith("loadMs.") ? [[Number(name.slice("loadMs.".length)), times] as const] : [],
    ),
  );
  const count = [...buckets.values()].reduce((sum, times) => sum + times, 0);
  return {
    count,
    meanMs: count === 0 ? null : (tally["loadMs:us"] ?? 0) / 1000 / count,
    p50Ms: percentileOf(buckets, 0.5) ?? null,
    p90Ms: percentileOf(buckets, 0.9) ?? null,
    p99Ms: percentileOf(buckets, 0.99) ?? null,
  };
}
