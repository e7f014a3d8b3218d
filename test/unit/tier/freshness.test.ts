import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { MAX_TIMER_MS } from "../../../src/core/base/clock.js";
import { compilePolicy, type Policy, type PolicySettings } from "../../../src/core/policy/policy.js";
import { type Entry, freshMsForWaiters, NO_EPOCH } from "../../../src/core/store/entry.js";
import { earliestRefreshAt, evaluateFreshness, isDueEarly, ownPolicy } from "../../../src/core/tier/entry/freshness.js";

const policyOf = (settings: PolicySettings) => compilePolicy({ declared: [settings], defaults: {} }).policy;
const entryOf = (more: Partial<Entry> = {}): Entry => ({
  state: "value",
  isNegative: false,
  hasRefreshFailed: false,
  loadMs: 0,
  gen: "",
  untilAt: 0,
  freshUntilAt: 10_000,
  grantedAt: 0,
  epoch: NO_EPOCH,
  position: 0,
  body: new Uint8Array(),
  ...more,
});

describe("evaluateFreshness", () => {
  const policy = policyOf({ maxAge: 10, staleWhileRevalidate: 5, staleIfError: 20 });

  it("returns fresh until the entry is stale, and then what the stale windows allow", () => {
    const at = (now: number) => evaluateFreshness(entryOf(), policy, now);
    expect([at(0), at(9_999)]).toEqual(["fresh", "fresh"]);
    expect([at(10_000), at(14_999)]).toEqual(["stale-while-revalidate", "stale-while-revalidate"]);
    expect([at(15_000), at(29_999), at(30_000)]).toEqual(["stale-if-error", "stale-if-error", "absent"]);
  });

  it("ends the freshness of a value at the instant that jitter has chosen, not after it", () => {
    const jittered = entryOf({ freshUntilAt: 9_000 });
    const at = (now: number) => evaluateFreshness(jittered, policy, now);
    expect([at(8_999), at(9_000)]).toEqual(["fresh", "stale-while-revalidate"]);
  });

  it("applies a shortened maxAge to entries that are already stored", () => {
    expect(evaluateFreshness(entryOf(), policyOf({ maxAge: 1 }), 2_000)).toBe("absent");
  });

  it("serves a value whose refresh failed until the next attempt, but never beyond its stale windows", () => {
    const backedOff = entryOf({ hasRefreshFailed: true, freshUntilAt: 40_000 });
    expect(evaluateFreshness(backedOff, policy, 29_000)).toBe("stale-backoff");
    expect(evaluateFreshness(backedOff, policy, 30_000)).toBe("absent");
  });

  it("serves a value that never expires as fresh for no longer than maxAge, whatever its entry says", () => {
    const forever = policyOf({ maxAge: 10, neverExpires: true });
    const at = (now: number, more: Partial<Entry> = {}) =>
      evaluateFreshness(entryOf({ freshUntilAt: 1e300, ...more }), forever, now);
    expect([at(9_999), at(10_000)]).toEqual(["fresh", "stale-while-revalidate"]);
    expect(at(10_000, { hasRefreshFailed: true })).toBe("stale-while-revalidate");
    expect(at(10_000, { hasRefreshFailed: true, freshUntilAt: 10_001 })).toBe("stale-backoff");
  });

  const FAILED = { hasRefreshFailed: true };
  it.each<[what: string, more: Partial<Entry>, now: number, expected: string]>([
    ["the first load", { state: "pending", untilAt: 0 }, 5_000, "pending"],
    ["a failure", { state: "failed", untilAt: 5_000 }, 4_999, "failed"],
    ["a failure whose time is over", { state: "failed", untilAt: 5_000 }, 5_000, "absent"],
    ["a mark", { state: "uncacheable", untilAt: 5_000 }, 4_999, "uncacheable"],
    ["a mark whose time is over", { state: "uncacheable", untilAt: 5_000 }, 5_000, "absent"],
    ["a value for those who waited", { freshUntilAt: freshMsForWaiters(0) }, 0, "absent"],
    ["a softly invalidated value", { freshUntilAt: 0 }, 6_000, "stale-while-revalidate"],
    ["a softly invalidated value, past its window", { freshUntilAt: 0 }, 15_000, "stale-if-error"],
    ["a failed refresh, soon after maxAge", { ...FAILED, freshUntilAt: 1 }, 12_000, "stale-while-revalidate"],
    ["a failed refresh, before maxAge", { ...FAILED, freshUntilAt: 9_000 }, 8_000, "stale-backoff"],
    ["a value stored with a shorter maxAge", { freshUntilAt: 2_000 }, 7_500, "stale-if-error"],
  ])("calls %s what it is", (_what, more, now, expected) => {
    expect(evaluateFreshness(entryOf(more), policy, now)).toBe(expected);
  });

  it("serves a value whose refresh failed for the longer of its two windows", () => {
    const patient = policyOf({ maxAge: 10, staleWhileRevalidate: 30, staleIfError: 0 });
    const backedOff = entryOf({ hasRefreshFailed: true, freshUntilAt: 90_000 });
    const at = (now: number) => evaluateFreshness(backedOff, patient, now);
    expect([at(39_999), at(40_000)]).toEqual(["stale-backoff", "absent"]);
  });

  it("retries the refresh of a value that never expires if its backoff is longer than any timer", () => {
    const forever = policyOf({ maxAge: 10, neverExpires: true });
    const at = (freshUntilAt: number) =>
      evaluateFreshness(entryOf({ hasRefreshFailed: true, freshUntilAt }), forever, 1_000);
    expect([at(1_000 + MAX_TIMER_MS), at(1_001 + MAX_TIMER_MS)]).toEqual(["stale-backoff", "stale-while-revalidate"]);
  });

  it("asks for what a load has set only where that can matter", () => {
    const entry = entryOf({ freshUntilAt: 60_000 });
    const limited = policyOf({ maxAge: 10, maxAgeLimit: 60 });
    const set = (own: object | undefined, now: number, by: Policy = limited) => {
      let asked = 0;
      const freshness = evaluateFreshness(entry, by, now, () => {
        asked++;
        return own;
      });
      return [freshness, asked];
    };
    expect(set({ maxAgeMs: 60_000 }, 9_999)).toEqual(["fresh", 0]);
    expect(set({ maxAgeMs: 60_000 }, 59_999)).toEqual(["fresh", 1]);
    expect(set({ maxAgeMs: 60_000 }, 60_000)).toEqual(["absent", 1]);
    expect(set({ maxAgeMs: 90_000 }, 60_000)).toEqual(["absent", 1]);
    expect(set(undefined, 59_999)).toEqual(["absent", 1]);
    expect(set({ staleWhileRevalidateMs: 5_000 }, 12_000)).toEqual(["stale-while-revalidate", 1]);
    expect(set({ staleWhileRevalidateMs: 2_000 }, 12_000, policy)).toEqual(["stale-if-error", 1]);
    expect(set({ staleWhileRevalidateMs: 2_000 }, 30_000, policy)).toEqual(["absent", 0]);
  });

  it("never makes an entry fresher as time passes", () => {
    const rank = ["fresh", "stale-while-revalidate", "stale-if-error", "absent"];
    const seconds = fc.nat(100);
    const settings = fc.record({ maxAge: seconds, staleWhileRevalidate: seconds, staleIfError: seconds });
    fc.assert(
      fc.property(settings, fc.nat(300_000), fc.nat(300_000), (declared, a, b) => {
        const entry = entryOf({ freshUntilAt: declared.maxAge * 1000 });
        const rankAt = (now: number) => rank.indexOf(evaluateFreshness(entry, policyOf(declared), now));
        return rankAt(Math.min(a, b)) <= rankAt(Math.max(a, b));
      }),
    );
  });
});

describe("ownPolicy", () => {
  const settings = { maxAge: 10, staleWhileRevalidate: 5 };
  const limited = { ...settings, maxAgeLimit: 20 };
  const ms = (maxAgeMs: number, staleWhileRevalidateMs: number) => ({ maxAgeMs, staleWhileRevalidateMs });

  it.each<[PolicySettings, object, Partial<Policy>]>([
    [settings, {}, ms(10_000, 5_000)],
    [settings, ms(3_000, 2_000), ms(3_000, 2_000)],
    [settings, ms(30_000, 9_000), ms(10_000, 5_000)],
    [limited, ms(30_000, 30_000), ms(20_000, 20_000)],
    [{ ...limited, staleWhileRevalidate: 40 }, { staleWhileRevalidateMs: 60_000 }, ms(10_000, 40_000)],
  ])("of %j with %j is never longer than the policy allows", (declared, own, expected) => {
    expect(ownPolicy(policyOf(declared), own)).toMatchObject({ ...expected, neverExpires: false });
  });

  it("of a policy that never expires ends with the window that the load has set, however long", () => {
    const forever = policyOf({ maxAge: 10, neverExpires: true });
    expect(ownPolicy(forever, { maxAgeMs: 2_000 })).toMatchObject({ maxAgeMs: 2_000, neverExpires: true });
    expect(ownPolicy(forever, { staleWhileRevalidateMs: 90_000 })).toMatchObject({
      staleWhileRevalidateMs: 90_000,
      neverExpires: false,
    });
  });
});

describe("an early refresh", () => {
  const entry = { freshUntilAt: 100_000, loadMs: 1_000 };
  const drawn = 1 - Math.exp(-1);

  it("is due once the time that is left is at most what was drawn, in units of the load's time", () => {
    const at = (now: number, earlyRefreshBeta = 1, { loadMs } = entry) =>
      isDueEarly({ ...entry, loadMs }, { earlyRefreshBeta }, now, () => drawn);
    const short = { ...entry, loadMs: 500 };
    expect([at(98_999), at(99_000.001)]).toEqual([false, true]);
    expect([at(97_999, 2), at(98_000.001, 2)]).toEqual([false, true]);
    expect([at(99_499, 1, short), at(99_500.001, 1, short)]).toEqual([false, true]);
    expect([at(100_000, 0), at(100_000, 1, { ...entry, loadMs: 0 })]).toEqual([false, false]);
  });

  it("is never due before the instant that is named, and draws no number until then", () => {
    let draws = 0;
    const random = () => {
      draws++;
      return 1 - 2 ** -53;
    };
    const policy = { earlyRefreshBeta: 2 };
    expect(earliestRefreshAt(entry, policy)).toBe(100_000 - 37 * 2_000);
    expect([isDueEarly(entry, policy, earliestRefreshAt(entry, policy) - 1, random), draws]).toEqual([false, 0]);
    expect([isDueEarly(entry, policy, 27_000, random), draws]).toEqual([true, 1]);
  });
});
