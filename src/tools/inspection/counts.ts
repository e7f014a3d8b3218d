import { optionInvalid } from "../../core/base/errors.js";
import { COUNTERS, type Counters, percentileOf } from "../../core/telemetry/counters.js";
import type {
  CacheBypass,
  CacheBypassReason,
  CacheCount,
  CacheCountSeries,
  CacheCounts,
  CacheDurations,
} from "../../generated/schema.js";
import { MINUTE_MS, type ProcessReport, type Tallies, type Tally } from "./report-format.js";
import { isoTimeOf } from "./times.js";

/** Returns everything that a process has counted since it started. */
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

/** Returns what has been counted since `before`; empty if nothing has. */
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

/**
 * Returns the sum of what the processes have counted. `process`: the id of the only one that is wanted. Throws `CACHED_OPTION_INVALID`
 * if none has this id.
 */
export function describeCounts(
  reports: readonly ProcessReport[],
  process: string | null | undefined,
  now: number,
): CacheCounts {
  const wanted = reports.filter(({ info }) => process === undefined || process === null || info.id === process);
  if (wanted.length === 0)
    throw optionInvalid("cacheInspection.counts: `process`: expected the id of a process in `processes`, got another");
  const known = wanted.filter(({ details }) => details !== undefined);
  const sums = new Map<string, Sum>();
  const total = newSum();
  for (const { details } of known) {
    addAll(details?.total ?? [], sums, total, (sum) => sum.sinceStart);
    for (const [at, tallies] of details?.minutes ?? [])
      if (at > now - 10 * MINUTE_MS) addAll(tallies, sums, total, (sum) => minuteOf(sum, at));
  }
  return {
    since: isoTimeOf(Math.min(...wanted.map(({ info }) => info.startedAt))),
    processes: known.length,
    total: seriesOf(null, total),
    fields: [...sums].sort(([a], [b]) => (a < b ? -1 : 1)).map(([coordinate, sum]) => seriesOf(coordinate, sum)),
  };
}

interface Sum {
  readonly sinceStart: Record<string, number>;
  readonly minutes: Map<number, Record<string, number>>;
}

const newSum = (): Sum => ({ sinceStart: {}, minutes: new Map() });

function minuteOf({ minutes }: Sum, at: number): Record<string, number> {
  const minute = minutes.get(at) ?? {};
  minutes.set(at, minute);
  return minute;
}

function addAll(tallies: Tallies, sums: Map<string, Sum>, total: Sum, of: (sum: Sum) => Record<string, number>): void {
  for (const [coordinate, tally] of tallies) {
    const sum = sums.get(coordinate) ?? newSum();
    sums.set(coordinate, sum);
    for (const to of [of(sum), of(total)]) for (const name in tally) to[name] = (to[name] ?? 0) + (tally[name] ?? 0);
  }
}

/** With many fields these are many objects, so they are made only if they are asked for. */
const seriesOf = (coordinate: string | null, { sinceStart, minutes }: Sum): CacheCountSeries => ({
  coordinate,
  get sinceStart() {
    return countOf(sinceStart);
  },
  get minutes() {
    return [...minutes].sort(([a], [b]) => a - b).map(([at, tally]) => ({ at: isoTimeOf(at), count: countOf(tally) }));
  },
});

function countOf(tally: Tally): CacheCount {
  const { reads = 0, hit = 0, stale = 0, coalesced = 0 } = tally;
  const bypasses = countsUnder(tally, "bypass.")
    // A newer release may report reasons that this one does not know.
    .flatMap(([reason, count]): CacheBypass[] => (isKnown(reason) ? [{ reason, reads: count }] : []))
    .sort((a, b) => b.reads - a.reads);
  const bypassedOnPurpose = bypasses.reduce((sum, one) => sum + (ON_PURPOSE[one.reason] ? one.reads : 0), 0);
  const wanted = reads - bypassedOnPurpose;
  return {
    reads,
    hit,
    stale,
    coalesced,
    staleIfError: tally.staleIfError ?? 0,
    loaded: tally.loaded ?? 0,
    bypassed: tally.bypassed ?? 0,
    bypassedOnPurpose,
    bypasses,
    servedWithoutLoad: wanted <= 0 ? null : (hit + stale + coalesced) / wanted,
    loads: tally.loads ?? 0,
    refreshes: tally.refreshes ?? 0,
    failedLoads: tally.failedLoads ?? 0,
    refusedStores: tally.refusedStores ?? 0,
    loadMs: durationsOf(tally),
  };
}

function durationsOf(tally: Tally): CacheDurations {
  const buckets = new Map(countsUnder(tally, "loadMs.").map(([bucket, times]) => [Number(bucket), times]));
  const count = [...buckets.values()].reduce((sum, times) => sum + times, 0);
  return {
    count,
    meanMs: count === 0 ? null : (tally["loadMs:us"] ?? 0) / 1000 / count,
    p50Ms: percentileOf(buckets, 0.5) ?? null,
    p90Ms: percentileOf(buckets, 0.9) ?? null,
    p99Ms: percentileOf(buckets, 0.99) ?? null,
  };
}

/** Returns the counts whose names begin with `prefix`, by the rest of the name. */
const countsUnder = (tally: Tally, prefix: string): [rest: string, count: number][] =>
  Object.entries(tally).flatMap(([name, count]) =>
    name.startsWith(prefix) ? [[name.slice(prefix.length), count]] : [],
  );

/** Whether reads that have bypassed the cache for this reason were meant to. */
const ON_PURPOSE: Readonly<Record<CacheBypassReason, boolean>> = {
  KEY_UNUSABLE: false,
  NO_IDENTITY: false,
  UNCACHEABLE: false,
  WRITE_IN_PROGRESS: false,
  STORE_UNAVAILABLE: false,
  WAIT_TIMEOUT: false,
  NESTED: false,
  DOES_NOT_EXIST: false,
  REQUESTED: true,
  MODE_OFF: true,
  KEY_COLLISION: false,
  ABORTED: false,
  CLOSED: false,
};

const isKnown = (reason: string): reason is CacheBypassReason => Object.hasOwn(ON_PURPOSE, reason);
