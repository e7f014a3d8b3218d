import { describe, expect, it } from "vitest";
import { advise, changeRateOf, type Evidence } from "../../../src/tools/inspection/advisor.js";

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
const DAY_MS = 24 * HOUR_MS;

/** 1,000 reads an hour of one key that was watched for two days and never changed. */
const STEADY: Evidence = {
  reads: 48_000,
  readsPerSecond: 1_000 / 3600,
  loadsPerSecond: 1 / 303.6,
  callsPerSecond: 1 / 303.6,
  loadMs: 20,
  valueBytes: 500,
  changes: { comparisons: 40_000, meanAgeMs: 150_000, unchangedMs: 47 * HOUR_MS, changed: [] },
  policy: { maxAgeMs: 300_000, staleWhileRevalidateMs: 0, jitterRatio: 0, neverExpires: false },
  isObserved: false,
};
/** The same with a maxAge of an hour. */
const FITTING: Evidence = {
  ...STEADY,
  policy: { ...STEADY.policy, maxAgeMs: HOUR_MS },
  loadsPerSecond: 1 / 3604,
  callsPerSecond: 1 / 3604,
  changes: { ...STEADY.changes, meanAgeMs: HOUR_MS / 2 },
};
const changingEvery = (ms: number, count: number): Evidence["changes"] => ({
  ...STEADY.changes,
  unchangedMs: (ms - 3_600) * count,
  changed: [{ withinMs: 3_600, count }],
});

describe("the estimate of how often values change", () => {
  it("is a change per time watched, if changes are noticed at once", () => {
    const rate = changeRateOf({ unchangedMs: 999 * MINUTE_MS, changed: [{ withinMs: 1_000, count: 1_000 }] });
    expect(1 / rate.perMs / MINUTE_MS).toBeCloseTo(1, 1);
    expect(1 / rate.maxPerMs / MINUTE_MS).toBeGreaterThan(0.9);
  });

  it("takes into account that a change is noticed late, and that several may be noticed as one", () => {
    // At one change a minute, a value that is compared after five is unchanged in one of e^5 cases.
    const changed = 1 - Math.exp(-5);
    const rate = changeRateOf({
      unchangedMs: 10_000 * (1 - changed) * 5 * MINUTE_MS,
      changed: [{ withinMs: 5 * MINUTE_MS, count: 10_000 * changed }],
    });
    expect(rate.perMs * MINUTE_MS).toBeCloseTo(1, 2);
  });

  it("is 0 without a change, at most by the rule of three", () => {
    const rate = changeRateOf({ unchangedMs: 30 * HOUR_MS, changed: [] });
    expect(rate.perMs).toBe(0);
    expect(1 / rate.maxPerMs / HOUR_MS).toBeCloseTo(10, 1);
  });

  it("has a wide margin with few changes, and a negligible one with many", () => {
    const marginOf = (count: number): number => {
      const rate = changeRateOf({ unchangedMs: count * HOUR_MS, changed: [{ withinMs: 1_000, count }] });
      return rate.maxPerMs / rate.perMs;
    };
    expect(marginOf(1)).toBeGreaterThan(4);
    expect(marginOf(10_000)).toBeLessThan(1.03);
  });

  it("is finite if every value had changed when it was compared, and if nothing was compared", () => {
    for (const evidence of [
      { unchangedMs: 0, changed: [{ withinMs: 1_000, count: 50 }] },
      { unchangedMs: 0, changed: [] },
    ]) {
      const { perMs, maxPerMs } = changeRateOf(evidence);
      expect(Number.isFinite(perMs) && Number.isFinite(maxPerMs)).toBe(true);
      expect(maxPerMs).toBeGreaterThan(0);
    }
  });
});

describe("the advice", () => {
  it("is a longer maxAge for a field that was never seen to change, as long as what was seen allows", () => {
    const advice = advise(STEADY, 0.05);
    expect([advice.kind, advice.proposed?.maxAgeMs]).toEqual(["LONGER", HOUR_MS]);
    expect(advice.proposed?.loadsPerSecond).toBeCloseTo(1 / 3603.6, 6);
    const longer = { ...STEADY, changes: { ...STEADY.changes, unchangedMs: 100 * DAY_MS } };
    expect(advise(longer, 0.05).proposed?.maxAgeMs).toBe(DAY_MS);
    const shorter = { ...STEADY, changes: { ...STEADY.changes, unchangedMs: HOUR_MS } };
    expect(advise(shorter, 0.05)).toMatchObject({ kind: "NONE", proposed: undefined });
  });

  it("is a shorter maxAge for a field whose reads are outdated too often", () => {
    const advice = advise({ ...STEADY, changes: changingEvery(MINUTE_MS, 1_000) }, 0.05);
    expect(advice.kind).toBe("SHORTER");
    expect(advice.now?.staleRatio).toBeCloseTo(0.8, 1);
    expect(advice.proposed?.maxAgeMs).toBeLessThanOrEqual(MINUTE_MS);
    expect(advice.proposed?.maxStaleRatio).toBeLessThanOrEqual(0.05);
  });

  it("is no shorter maxAge because of one or two changes", () => {
    expect(advise({ ...STEADY, changes: changingEvery(MINUTE_MS, 2) }, 0.05).kind).toBe("NONE");
  });

  it("allows as many outdated reads as are asked for", () => {
    const maxAgeAt = (maxStaleRatio: number): number =>
      advise({ ...STEADY, changes: changingEvery(HOUR_MS, 1_000) }, maxStaleRatio).proposed?.maxAgeMs ?? 0;
    expect(maxAgeAt(0.2)).toBeGreaterThan(maxAgeAt(0.01));
    expect(maxAgeAt(0.01)).toBeGreaterThan(0);
  });

  it("is none, with the reason, where there is nothing to gain or too little is known", () => {
    const noneOf = (own: Partial<Evidence>): string => {
      const { kind, reason, proposed } = advise({ ...STEADY, ...own }, 0.05);
      expect([kind, proposed]).toEqual(["NONE", undefined]);
      return reason;
    };
    expect(noneOf({ reads: 2 })).toBe("Too few reads: 100 say something, and there were 2.");
    expect(noneOf({ changes: { ...STEADY.changes, comparisons: 0 } })).toContain("No value was compared");
    expect(noneOf({ loadMs: 0.4 })).toContain("about as long as a hit");
    expect(noneOf({ loadMs: 3, valueBytes: 1024 * 1024 })).toContain("about as long as a hit");
    expect(noneOf({ loadMs: undefined })).toContain("No load has ended");
    expect(noneOf({ changes: changingEvery(3_700, 1_000) })).toContain("invalidate it when it changes");
    expect(noneOf({ policy: { ...STEADY.policy, neverExpires: true } })).toContain("never expire");
    expect(noneOf({ policy: { ...STEADY.policy, followsHints: true } })).toContain("cache hint");
    expect(noneOf({ policy: { ...STEADY.policy, maxAgeMs: 0 } })).toContain("maxAge is 0");
    expect(noneOf(FITTING)).toContain("fits");
    // Each key is read every month or so: no maxAge up to a day saves much.
    expect(noneOf({ loadsPerSecond: STEADY.readsPerSecond * 0.9999, callsPerSecond: 0.27 })).toContain("save few");
  });

  it("promises nothing of a longer maxAge to a field whose values are invalidated long before", () => {
    // Entries live for a minute, whatever maxAge says: the values that are served are half as old as that, or less.
    const invalidated: Evidence = {
      ...STEADY,
      policy: { ...STEADY.policy, maxAgeMs: 600_000 },
      loadsPerSecond: 1 / 63.6,
      callsPerSecond: 1 / 63.6,
      changes: { ...STEADY.changes, meanAgeMs: 60_000 },
    };
    expect(advise(invalidated, 0.05)).toMatchObject({ kind: "NONE" });
    const kept = { ...invalidated, changes: { ...STEADY.changes, meanAgeMs: 300_000 } };
    expect(advise(kept, 0.05)).toMatchObject({ kind: "LONGER" });
  });

  it("adds staleWhileRevalidate where loads are slow", () => {
    const slow = { ...STEADY, loadMs: 400 };
    expect(advise(slow, 0.05).proposed?.staleWhileRevalidateMs).toBe(HOUR_MS);
    expect(advise({ ...FITTING, loadMs: 400 }, 0.05)).toMatchObject({
      kind: "ADD_STALE",
      proposed: { maxAgeMs: HOUR_MS, staleWhileRevalidateMs: HOUR_MS },
    });
    expect(advise(STEADY, 0.05).proposed?.staleWhileRevalidateMs).toBe(0);
  });

  it("says what turning an observed field on would save", () => {
    const { readsPerSecond } = STEADY;
    const observed = { ...STEADY, isObserved: true, callsPerSecond: readsPerSecond };
    expect(advise(observed, 0.05)).toMatchObject({ kind: "LONGER", proposed: { maxAgeMs: HOUR_MS } });
    expect(advise({ ...FITTING, isObserved: true, callsPerSecond: readsPerSecond }, 0.05).kind).toBe("TURN_ON");
    const rare = { ...observed, loadsPerSecond: readsPerSecond * 0.9999 };
    expect(advise(rare, 0.05).reason).toContain("read too rarely");
  });
});
