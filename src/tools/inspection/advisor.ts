/**
 * What is known of one field or loader. Rates are those of all processes, per second; times are in milliseconds.
 */
export interface Evidence {
  /** Reads in the span that were, or would have been, answered from an entry or by a load. */
  readonly reads: number;
  readonly readsPerSecond: number;
  /** Loads a second under the policy in force, refreshes included. */
  readonly loadsPerSecond: number;
  /** Calls of the source a second now: the loads, or the reads if every read calls the source. */
  readonly callsPerSecond: number;
  /** How long a load takes on average. Undefined: none has ended with a value. */
  readonly loadMs: number | undefined;
  readonly valueBytes: number;
  readonly changes: ChangeEvidence;
  readonly policy: AdvisedPolicy;
  /** Whether every read calls the source, and the cache only observes. */
  readonly isObserved: boolean;
}

export interface ChangeEvidence {
  readonly comparisons: number;
  /** How old the values were on average. */
  readonly meanAgeMs: number;
  /** For how long values were seen not to change, in total. */
  readonly unchangedMs: number;
  /** The changes that were seen: how many happened within which time. */
  readonly changed: readonly { readonly withinMs: number; readonly count: number }[];
}

export interface AdvisedPolicy {
  readonly maxAgeMs: number;
  readonly staleWhileRevalidateMs: number;
  readonly jitterRatio: number;
  readonly neverExpires: boolean;
  readonly followsHints?: boolean | undefined;
}

export interface ChangeRate {
  /** The rate under which what was seen is most likely. */
  readonly perMs: number;
  /** The largest rate under which it is still a twentieth as likely. */
  readonly maxPerMs: number;
}

export interface Lifetimes {
  readonly maxAgeMs: number;
  readonly staleWhileRevalidateMs: number;
}

export interface Prediction {
  readonly loadsPerSecond: number;
  readonly staleRatio: number;
  readonly maxStaleRatio: number;
}

export type AdviceKind = "LONGER" | "SHORTER" | "ADD_STALE" | "TURN_ON" | "NONE";

export interface Advice {
  readonly kind: AdviceKind;
  readonly reason: string;
  readonly rate: ChangeRate | undefined;
  /** What follows from the policy in force. Undefined if that is not known. */
  readonly now: Prediction | undefined;
  readonly proposed: (Lifetimes & Prediction) | undefined;
}

const MIN_READS = 100;
/** A load that takes no longer than this costs about as much as a hit. */
const CHEAP_LOAD_MS = 1;
/** Bytes that take about a millisecond to be read and decoded. */
const BYTES_PER_MS = 256 * 1024;
/** A load that takes at least this long is worth not to be waited for. */
const SLOW_LOAD_MS = 50;
/** The fewest changes that make a `maxAge` too long. */
const MIN_CHANGES = 3;
/** The share of the calls of the source that a proposal has to save. */
const MIN_SAVING_RATIO = 0.1;
const MIN_SAVED_PER_SECOND = 1 / 3600;
/** How likely what was seen has to be under the largest rate of changes, as a logarithm: a twentieth. */
const LOG_LIKELIHOOD_DROP = Math.log(20);
const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400];

/**
 * Proposes how long the values of a field are served, so that at most `maxStaleRatio` of its reads are outdated.
 *
 * The model: the keys of a field are read equally often and at random, and their values change at random. Then an entry that
 * lives for `l` answers `r * l` reads, `r` being the reads of a key a second, and each life costs one load:
 *
 *     loads = reads / (1 + r * l)
 *
 * which gives `r` from the loads that there are. Invalidations and evictions end lives early: how early shows in the age of
 * the values that are served, half of maxAge if nothing does.
 */
export function advise(evidence: Evidence, maxStaleRatio: number): Advice {
  const { reads, loadMs, valueBytes, changes, policy, callsPerSecond, isObserved } = evidence;
  const none = (reason: string, known: Partial<Advice> = {}): Advice => ({
    kind: "NONE",
    rate: undefined,
    now: undefined,
    proposed: undefined,
    ...known,
    reason,
  });
  if (policy.maxAgeMs === 0) return none("It is not cached: its maxAge is 0.");
  if (policy.neverExpires) return none("Its values never expire, as neverExpires says.");
  if (policy.followsHints === true)
    return none("Its maxAge is that of a cache hint; set maxAge in @cached to have it advised on.");
  if (reads < MIN_READS) return none(`Too few reads: ${MIN_READS} say something, and there were ${reads}.`);
  if (changes.comparisons === 0)
    return none("No value was compared with its source. Set sampling.sampleRatio, or the mode observe.");
  const rate = changeRateOf(changes);
  const model = modelOf(evidence);
  const now = predict(model, policy, rate);
  if (loadMs === undefined) return none("No load has ended with a value.", { rate, now });
  const cheapMs = CHEAP_LOAD_MS + valueBytes / BYTES_PER_MS;
  if (loadMs < cheapMs)
    return none(`A load takes ${timeText(loadMs)}, about as long as a hit: the cache saves nothing.`, { rate, now });
  const best = longestWithin(maxStaleRatio, model, policy, rate);
  const seen = seenText(changes, rate);
  if (best === undefined)
    return countOf(changes) < MIN_CHANGES
      ? none(`${seen} That is not enough to say more.`, { rate, now })
      : none(
          `${seen} Even with maxAge: ${STEPS[0]}, more than ${percentText(maxStaleRatio)} of the reads would be outdated: invalidate it when it changes.`,
          { rate, now },
        );
  const proposed = withStale(best, model, policy, rate, { maxStaleRatio, loadMs });
  const result = { rate, now, proposed: { ...proposed, ...predict(model, proposed, rate) } };
  if (isObserved) return adviseObserved(evidence, seen, result, none);
  const isTooLong = now.staleRatio > maxStaleRatio && countOf(changes) >= MIN_CHANGES;
  if (isTooLong && best.maxAgeMs < policy.maxAgeMs)
    return { kind: "SHORTER", ...result, reason: `${seen} ${percentText(now.staleRatio)} of the reads are outdated.` };
  const savedPerSecond = callsPerSecond - result.proposed.loadsPerSecond;
  if (best.maxAgeMs > policy.maxAgeMs) {
    const isWorth = savedPerSecond >= MIN_SAVING_RATIO * callsPerSecond && savedPerSecond >= MIN_SAVED_PER_SECOND;
    if (isWorth) return { kind: "LONGER", ...result, reason: seen };
    return none(`${seen} A longer maxAge would save few of the loads, ${rateText(callsPerSecond)}.`, { rate, now });
  }
  // What is in force stays, as long as there is no reason to shorten it.
  const kept = { maxAgeMs: policy.maxAgeMs, staleWhileRevalidateMs: policy.staleWhileRevalidateMs };
  const withOwn = withStale(kept, model, policy, rate, { maxStaleRatio, loadMs });
  if (withOwn.staleWhileRevalidateMs > kept.staleWhileRevalidateMs)
    return {
      kind: "ADD_STALE",
      ...result,
      proposed: { ...withOwn, ...predict(model, withOwn, rate) },
      reason: `${seen} A load takes ${timeText(loadMs)}: with staleWhileRevalidate, nobody waits for it.`,
    };
  return none(
    best.maxAgeMs < policy.maxAgeMs
      ? `${seen} The policy in force may fit, and there is too little to propose a longer maxAge.`
      : `${seen} The policy in force fits.`,
    { rate, now },
  );
}

/** The advice for a field whose every read calls the source: what turning it on would save. */
function adviseObserved(
  { callsPerSecond, policy }: Evidence,
  seen: string,
  result: { readonly rate: ChangeRate; readonly now: Prediction; readonly proposed: Lifetimes & Prediction },
  none: (reason: string, known: Partial<Advice>) => Advice,
): Advice {
  const { rate, now, proposed } = result;
  const savedPerSecond = callsPerSecond - proposed.loadsPerSecond;
  if (savedPerSecond < MIN_SAVING_RATIO * callsPerSecond)
    return none(`${seen} Its keys are read too rarely for the cache to save calls of the source.`, { rate, now });
  const isLonger = proposed.maxAgeMs > policy.maxAgeMs;
  const kind = proposed.maxAgeMs === policy.maxAgeMs ? "TURN_ON" : isLonger ? "LONGER" : "SHORTER";
  return { kind, ...result, reason: `${seen} It is only observed: turn it on with this policy.` };
}

interface Model {
  readonly readsPerSecond: number;
  /** How often each key is read, per millisecond. */
  readonly keyReadsPerMs: number;
  /** How often an entry ends before its time, per millisecond. */
  readonly endsPerMs: number;
  readonly jitterRatio: number;
}

function modelOf({ readsPerSecond, loadsPerSecond, policy, changes }: Evidence): Model {
  const { jitterRatio } = policy;
  const maxAgeMs = policy.maxAgeMs * (1 - jitterRatio / 2);
  const endsPerMs = endRateOf(changes, maxAgeMs);
  const readsPerLife = loadsPerSecond === 0 ? readsPerSecond * 1000 : Math.max(0, readsPerSecond / loadsPerSecond - 1);
  return { readsPerSecond, keyReadsPerMs: readsPerLife / meanLife(endsPerMs, maxAgeMs), endsPerMs, jitterRatio };
}

/** The mean life of an entry that lives for at most `maxMs` and ends earlier at a rate. Also the integral of its survival. */
const meanLife = (ratePerMs: number, maxMs: number): number =>
  ratePerMs * maxMs < 1e-9 ? maxMs : -Math.expm1(-ratePerMs * maxMs) / ratePerMs;

/**
 * Returns how often entries end before their time, from the mean age of the values that are served. 0 if that is not
 * significantly less than half of maxAge.
 */
function endRateOf({ comparisons, meanAgeMs }: ChangeEvidence, maxAgeMs: number): number {
  // The ages are spread evenly over maxAge if nothing ends a life.
  const deviation = maxAgeMs / Math.sqrt(12 * comparisons);
  if (meanAgeMs >= maxAgeMs / 2 - 2 * deviation) return 0;
  const meanAge = (rate: number): number => {
    const ended = rate * maxAgeMs;
    return ended > 500 ? 1 / rate : 1 / rate - maxAgeMs / Math.expm1(ended);
  };
  return solve((rate) => meanAgeMs - meanAge(rate), 1e-3 / maxAgeMs, 1e6 / maxAgeMs);
}

export function predict(model: Model, lifetimes: Lifetimes, rate: ChangeRate): Prediction {
  const maxAgeMs = lifetimes.maxAgeMs * (1 - model.jitterRatio / 2);
  const { readsPerSecond, keyReadsPerMs, endsPerMs } = model;
  const lifeMs = meanLife(endsPerMs, maxAgeMs);
  const loadedRatio = 1 / (1 + keyReadsPerMs * lifeMs);
  const staleRatioAt = (perMs: number): number => {
    const ofFresh = 1 - meanLife(endsPerMs + perMs, maxAgeMs) / lifeMs;
    return (1 - loadedRatio) * ofFresh + loadedRatio * servedStale(model, lifetimes, maxAgeMs, perMs);
  };
  return {
    loadsPerSecond: readsPerSecond * loadedRatio,
    staleRatio: staleRatioAt(rate.perMs),
    maxStaleRatio: staleRatioAt(rate.maxPerMs),
  };
}

/** Returns the probability that the read after the end of maxAge gets a stale value that has changed. */
function servedStale(
  { keyReadsPerMs, endsPerMs }: Model,
  { staleWhileRevalidateMs }: Lifetimes,
  maxAgeMs: number,
  changesPerMs: number,
): number {
  if (staleWhileRevalidateMs === 0) return 0;
  const isStillThere = Math.exp(-endsPerMs * maxAgeMs);
  const isReadInTime = -Math.expm1(-keyReadsPerMs * staleWhileRevalidateMs);
  const waitMs = Math.min(staleWhileRevalidateMs, 1 / Math.max(keyReadsPerMs, 1e-12));
  return isStillThere * isReadInTime * -Math.expm1(-changesPerMs * (maxAgeMs + waitMs));
}

/** Returns the longest maxAge that keeps the share of outdated reads. Undefined if there is none of at least a second. */
function longestWithin(
  maxStaleRatio: number,
  model: Model,
  policy: AdvisedPolicy,
  rate: ChangeRate,
): Lifetimes | undefined {
  const candidates = STEPS.map((seconds): Lifetimes => {
    const maxAgeMs = seconds * 1000;
    return { maxAgeMs, staleWhileRevalidateMs: Math.min(policy.staleWhileRevalidateMs, maxAgeMs) };
  });
  return candidates.filter((one) => predict(model, one, rate).maxStaleRatio <= maxStaleRatio).at(-1);
}

/** Adds staleWhileRevalidate where loads are slow, there is none yet, and it keeps the share of outdated reads. */
function withStale(
  lifetimes: Lifetimes,
  model: Model,
  policy: AdvisedPolicy,
  rate: ChangeRate,
  { maxStaleRatio, loadMs }: { readonly maxStaleRatio: number; readonly loadMs: number },
): Lifetimes {
  if (policy.staleWhileRevalidateMs > 0 || loadMs < SLOW_LOAD_MS) return lifetimes;
  const longer = { ...lifetimes, staleWhileRevalidateMs: lifetimes.maxAgeMs };
  return predict(model, longer, rate).maxStaleRatio <= maxStaleRatio ? longer : lifetimes;
}

/**
 * Estimates how often values change, as the rate of a Poisson process: a value is still the same after `t` with the probability
 * `exp(-rate * t)`. A change that was seen has happened at some time within `w`, with the probability `1 - exp(-rate * w)`.
 * The estimate makes what was seen most likely; without any change, it is 0.
 *
 * The upper bound is the largest rate under which it is still a twentieth as likely. Without any change in `t`, that is
 * `3 / t`, the rule of three for a confidence of 95 %; with many, it approaches the estimate.
 */
export function changeRateOf({ unchangedMs, changed }: Pick<ChangeEvidence, "unchangedMs" | "changed">): ChangeRate {
  const seen = changed.filter(({ withinMs, count }) => withinMs > 0 && count > 0);
  const logLikelihood = (rate: number): number =>
    seen.reduce((sum, { withinMs, count }) => sum + count * Math.log(-Math.expm1(-rate * withinMs)), 0) -
    rate * unchangedMs;
  const slope = (rate: number): number =>
    seen.reduce((sum, { withinMs, count }) => sum + (count * withinMs) / Math.expm1(rate * withinMs), 0) - unchangedMs;
  const totalMs = unchangedMs + seen.reduce((sum, { withinMs, count }) => sum + count * withinMs, 0);
  if (totalMs === 0) return { perMs: 0, maxPerMs: FASTEST_PER_MS };
  if (seen.length === 0) return { perMs: 0, maxPerMs: Math.min(FASTEST_PER_MS, LOG_LIKELIHOOD_DROP / unchangedMs) };
  const slowest = 1e-6 / totalMs;
  const perMs = solve((rate) => -slope(rate), slowest, FASTEST_PER_MS);
  const least = logLikelihood(perMs) - LOG_LIKELIHOOD_DROP;
  const maxPerMs = solve((rate) => least - logLikelihood(rate), perMs, FASTEST_PER_MS);
  return { perMs, maxPerMs };
}

/** Nothing that changes more often than this can be told from what changes always. */
const FASTEST_PER_MS = 1;
const BISECTIONS = 60;

/** Returns where a function that grows becomes positive, between two positive bounds: by bisection of their logarithms. */
function solve(fn: (x: number) => number, least: number, most: number): number {
  let [low, high] = [Math.log(least), Math.log(most)];
  for (let nth = 0; nth < BISECTIONS; nth++) {
    const middle = (low + high) / 2;
    if (fn(Math.exp(middle)) > 0) high = middle;
    else low = middle;
  }
  return Math.exp((low + high) / 2);
}

const countOf = ({ changed }: ChangeEvidence): number => changed.reduce((sum, { count }) => sum + count, 0);

function seenText(changes: ChangeEvidence, { perMs, maxPerMs }: ChangeRate): string {
  const count = countOf(changes);
  if (count === 0)
    return `No change was seen in ${timeText(changes.unchangedMs)} of watching its values, so it hardly changes more often than every ${timeText(1 / maxPerMs)}.`;
  const changesText = count === 1 ? "1 change" : `${count} changes`;
  return `It changes about every ${timeText(1 / perMs)}, and hardly more often than every ${timeText(1 / maxPerMs)} (${changesText} seen).`;
}

const UNITS = [
  { unit: "d", ms: 86_400_000 },
  { unit: "h", ms: 3_600_000 },
  { unit: "min", ms: 60_000 },
  { unit: "s", ms: 1000 },
];

function timeText(ms: number): string {
  // 90 min says more than 1.5 h.
  const { unit, ms: unitMs } = UNITS.find((one) => ms >= 1.995 * one.ms) ?? { unit: "ms", ms: 1 };
  return `${twoDigits(ms / unitMs)} ${unit}`;
}

const percentText = (ratio: number): string => `${twoDigits(100 * ratio)} %`;
const rateText = (perSecond: number): string =>
  perSecond >= 1 ? `${twoDigits(perSecond)} a second` : `${twoDigits(3600 * perSecond)} an hour`;
const twoDigits = (number: number): string =>
  String(number >= 100 ? Math.round(number) : Number(number.toPrecision(2)));
