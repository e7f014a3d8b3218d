import { describeSetting, optionInvalid } from "../../core/base/errors.js";
import { middleOf } from "../../core/telemetry/counters.js";
import type { CacheAdvice, CacheInspectionAdviceArgs, CacheLifetimes } from "../../generated/schema.js";
import type { FleetCounts } from "../fleet/fleet.js";
import { countsUnder, type Tally } from "../fleet/tally.js";
import { type Advice, advise, type ChangeEvidence, type Evidence, type Lifetimes } from "./advisor.js";
import type { FleetView } from "./fleet-view.js";
import type { InspectedParts } from "./inspected-parts.js";
import { modeOf } from "./mode-setting.js";
import { type Declared, declaredIn } from "./statistics.js";

/** Returns what the advisor proposes for each field and loader of this process. */
export async function adviceOf(
  parts: InspectedParts,
  view: FleetView,
  { window = "SINCE_START", maxStaleRatio = 0.05 }: CacheInspectionAdviceArgs,
): Promise<CacheAdvice[]> {
  if (!(maxStaleRatio > 0 && maxStaleRatio < 1))
    throw optionInvalid(
      `cacheInspection.advice: \`maxStaleRatio\`: expected a number between 0 and 1, got ${describeSetting(maxStaleRatio)}`,
    );
  await view.followModes();
  const counts = await view.counts(window);
  return [...declaredIn(parts).values()].map((declared) => {
    const tally = counts.tallies.get(declared.coordinate) ?? {};
    const evidence = evidenceOf(declared, tally, counts, modeOf(parts, declared.coordinate) === "OBSERVE");
    return describe(declared, evidence, advise(evidence, maxStaleRatio));
  });
}

/** The least milliseconds of a span, so that rates are finite. */
const MIN_SPAN_MS = 1;
const HOUR_MS = 3_600_000;

/** In the mode `observe`, what the cache would have done counts. Every read calls the source then. */
function evidenceOf(
  { policy }: Declared,
  tally: Tally,
  { sinceAt, untilAt }: FleetCounts,
  isObserved: boolean,
): Evidence {
  const seconds = Math.max(MIN_SPAN_MS, untilAt - sinceAt) / 1000;
  const countOf = (name: string): number => tally[name] ?? 0;
  const [reads, loads] = isObserved
    ? [countOf("observed.reads") - countOf("observed.bypassed"), countOf("observed.miss") + countOf("observed.stale")]
    : [countOf("reads") - countOf("bypassed"), countOf("loads")];
  const loaded = countsUnder(tally, "loadMs.").reduce((sum, [, times]) => sum + times, 0);
  return {
    reads,
    readsPerSecond: reads / seconds,
    loadsPerSecond: loads / seconds,
    callsPerSecond: (isObserved ? reads : loads) / seconds,
    loadMs: loaded === 0 ? undefined : countOf("loadMs:us") / 1000 / loaded,
    valueBytes: loaded === 0 ? 0 : countOf("storedBytes") / loaded,
    changes: changesOf(tally),
    policy,
    isObserved,
  };
}

function changesOf(tally: Tally): ChangeEvidence {
  const { "watched.comparisons": comparisons = 0, "watched.agesMs": agesMs = 0 } = tally;
  const { "watched.unchangedMs": unchangedMs = 0 } = tally;
  return {
    comparisons,
    meanAgeMs: comparisons === 0 ? 0 : agesMs / comparisons,
    unchangedMs,
    changed: countsUnder(tally, "changedMs.")
      .map(([bucket, count]) => ({ withinMs: middleOf(Number(bucket)), count }))
      // A newer release may report durations in another form.
      .filter(({ withinMs }) => Number.isFinite(withinMs)),
  };
}

function describe(declared: Declared, evidence: Evidence, { kind, reason, rate, now, proposed }: Advice): CacheAdvice {
  const { coordinate, policy } = declared;
  const { callsPerSecond, loadMs = 0, changes } = evidence;
  const saved = proposed === undefined ? 0 : callsPerSecond - proposed.loadsPerSecond;
  const isPrivate = policy.scope === "PRIVATE" && changes.comparisons === 0 && kind === "NONE";
  return {
    coordinate,
    kind,
    reason: isPrivate ? `${reason} Sampling compares PUBLIC values only.` : reason,
    current: {
      ...secondsOf(policy),
      loadsPerSecond: callsPerSecond,
      staleRatio: now?.staleRatio ?? null,
      maxStaleRatio: now?.maxStaleRatio ?? null,
    },
    proposed: proposed === undefined ? null : { ...proposed, ...secondsOf(proposed) },
    diff: proposed === undefined ? null : diffOf(declared, proposed),
    saving: proposed === undefined ? null : { loadsPerSecond: saved, loadMsPerSecond: saved * loadMs },
    comparisons: changes.comparisons,
    changesPerHour: rate === undefined ? null : rate.perMs * HOUR_MS,
    maxChangesPerHour: rate === undefined ? null : rate.maxPerMs * HOUR_MS,
  };
}

const secondsOf = ({
  maxAgeMs,
  staleWhileRevalidateMs,
}: Lifetimes): Pick<CacheLifetimes, "maxAge" | "staleWhileRevalidate"> => ({
  maxAge: maxAgeMs / 1000,
  staleWhileRevalidate: staleWhileRevalidateMs / 1000,
});

/** Returns the lines of a diff: the arguments of the directive that change, or the options of the loader. Null if none does. */
function diffOf({ coordinate, policy, settings, key }: Declared, proposed: Lifetimes): string | null {
  const [before, after] = [secondsOf(policy), secondsOf(proposed)];
  const changes: [name: string, before: number, after: number][] = [["maxAge", before.maxAge, after.maxAge]];
  if (before.staleWhileRevalidate !== after.staleWhileRevalidate)
    changes.push(["staleWhileRevalidate", before.staleWhileRevalidate, after.staleWhileRevalidate]);
  const { negativeMaxAge = 0, maxAgeLimit } = settings;
  // These must not be longer, and not be shorter, than maxAge.
  if (negativeMaxAge > after.maxAge) changes.push(["negativeMaxAge", negativeMaxAge, after.maxAge]);
  if (maxAgeLimit !== undefined && maxAgeLimit < after.maxAge) changes.push(["maxAgeLimit", maxAgeLimit, after.maxAge]);
  if (changes.every(([, was, is]) => was === is)) return null;
  const written = (nth: 1 | 2): string =>
    changes.flatMap((change) => (change[nth] === 0 ? [] : [`${change[0]}: ${change[nth]}`])).join(", ");
  if (key === null)
    return [`  cache.loader({ name: "${coordinate}",`, `-   ${written(1)},`, `+   ${written(2)},`].join("\n");
  const [type = "", field = ""] = coordinate.split(".");
  if (field === "__resolveReference")
    return [`- type ${type} @cached(${written(1)})`, `+ type ${type} @cached(${written(2)})`].join("\n");
  const line = (sign: string, nth: 1 | 2): string => `${sign}   ${field} @cached(${written(nth)})`;
  return [`  type ${type} {`, line("-", 1), line("+", 2)].join("\n");
}
