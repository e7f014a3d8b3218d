import type { Variant } from "../../core/keys/key.js";
import type { Policy, PolicySettings } from "../../core/policy/policy.js";
import { COUNTERS, percentileOf } from "../../core/telemetry/counters.js";
import { CALLS_SOURCE } from "../../core/telemetry/events.js";
import type {
  CacheBypass,
  CacheBypassReason,
  CacheDurations,
  CacheFieldStats,
  CachePolicy,
  CacheStats,
} from "../../generated/schema.js";
import type { FleetCounts } from "../fleet/fleet.js";
import { countsUnder, sumOf, type Tally } from "../fleet/tally.js";
import type { InspectedParts } from "./inspected-parts.js";
import { breakersOf, bulkheadsOf } from "./live-resolvers.js";
import type { ProcessState } from "./process-state.js";
import { isoTimeOf } from "./times.js";

/** Returns the sum over all coordinates, or what is given as `tally`. */
export function statsOf(
  { tallies, sinceAt, untilAt, processes, missing }: FleetCounts,
  tally: Tally = sumOf(tallies.values()),
): CacheStats {
  const countOf = (name: string): number => tally[name] ?? 0;
  const counts = Object.fromEntries(COUNTERS.map((name) => [name, countOf(name)])) as Record<
    (typeof COUNTERS)[number],
    number
  >;
  const { reads, refreshes, hit, stale, staleIfError, coalesced } = counts;
  return {
    ...counts,
    storeFailures: countOf("storeFailures"),
    hitRatio: reads === 0 ? null : (hit + stale + staleIfError) / reads,
    loadsSaved: hit + stale + coalesced - refreshes,
    loadMs: durationsOf(tally, "loadMs"),
    waitMs: durationsOf(tally, "waitMs"),
    bypasses: bypassesOf(tally),
    since: isoTimeOf(sinceAt),
    until: isoTimeOf(untilAt),
    processes,
    missing,
  };
}

export interface Declared {
  readonly coordinate: string;
  readonly policy: Policy;
  readonly settings: PolicySettings;
  readonly variant: Variant;
  readonly key: readonly string[] | null;
  readonly tags: readonly string[] | null;
}

/** Returns the fields of this process and then its loaders, by coordinate. */
export function declaredIn(parts: InspectedParts): ReadonlyMap<string, Declared> {
  const fields = [...parts.rules.fields.values()].map(
    (rule): Declared => ({
      ...rule,
      key: rule.keyPaths.map(({ text }) => text),
      tags: rule.tags.map(({ text }) => text),
    }),
  );
  const loaders = [...parts.loaders.values()].map(
    ({ name, policy, settings, variantOf }): Declared => ({
      coordinate: name,
      policy,
      settings,
      variant: variantOf(),
      key: null,
      tags: null,
    }),
  );
  return new Map([...fields, ...loaders].map((declared) => [declared.coordinate, declared]));
}

/** Returns the fields of this process, then its loaders, and then what only other processes have. */
export function fieldStatsOf(
  parts: InspectedParts,
  counts: FleetCounts,
  states: readonly ProcessState[],
): CacheFieldStats[] {
  const own = declaredIn(parts);
  const others = [...counts.tallies.keys()].filter((coordinate) => coordinate !== "" && !own.has(coordinate));
  others.sort((a, b) => (a < b ? -1 : 1));
  return [...own.keys(), ...others].map((coordinate) => {
    const declared = own.get(coordinate);
    const tally = counts.tallies.get(coordinate) ?? {};
    const stats = statsOf(counts, tally);
    const policy = declared === undefined ? null : policyOf(declared);
    return {
      coordinate,
      maxAge: policy?.maxAge ?? null,
      scope: policy?.scope ?? null,
      policy,
      variant: declared?.variant.id ?? null,
      stats,
      bypasses: stats.bypasses,
      // With many fields and processes these are long lists, so they are made only if they are asked for.
      get breaker() {
        return breakersOf(states, coordinate);
      },
      get bulkhead() {
        return bulkheadsOf(states, coordinate);
      },
    };
  });
}

function policyOf({ policy, settings, key, tags }: Declared): CachePolicy {
  return {
    maxAge: policy.maxAgeMs / 1000,
    maxAgeLimit: policy.maxAgeLimitMs === undefined ? null : policy.maxAgeLimitMs / 1000,
    staleWhileRevalidate: policy.staleWhileRevalidateMs / 1000,
    refresh: policy.refresh,
    neverExpires: policy.neverExpires,
    staleIfError: policy.staleIfErrorMs / 1000,
    negativeMaxAge: policy.negativeMaxAgeMs / 1000,
    jitter: policy.jitterRatio,
    earlyRefresh: policy.earlyRefreshBeta,
    scope: policy.scope,
    readOnly: policy.readOnly === true,
    key,
    tags,
    profile: settings.profile ?? null,
    version: settings.version ?? null,
    followsHints: policy.followsHints === true,
  };
}

const bypassesOf = (tally: Tally): CacheBypass[] =>
  countsUnder(tally, "bypass.")
    // A newer release may report reasons that this one does not know.
    .flatMap(([reason, reads]) => (isKnown(reason) ? [{ reason, reads }] : []))
    .sort((a, b) => b.reads - a.reads);

function durationsOf(tally: Tally, name: string): CacheDurations {
  // A newer release may report durations in another form as well.
  const buckets = new Map(
    countsUnder(tally, `${name}.`)
      .map(([bucket, times]) => [Number(bucket), times] as const)
      .filter(([bucket]) => Number.isFinite(bucket)),
  );
  const count = [...buckets.values()].reduce((sum, times) => sum + times, 0);
  return {
    count,
    meanMs: count === 0 ? null : (tally[`${name}:us`] ?? 0) / 1000 / count,
    p50Ms: percentileOf(buckets, 0.5) ?? null,
    p90Ms: percentileOf(buckets, 0.9) ?? null,
    p99Ms: percentileOf(buckets, 0.99) ?? null,
  };
}

const isKnown = (reason: string): reason is CacheBypassReason => Object.hasOwn(CALLS_SOURCE, reason);
