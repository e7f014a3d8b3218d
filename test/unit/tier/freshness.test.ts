import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compilePolicy, type PolicySettings } from "../../../src/core/policy/policy.js";
import { type Entry, NO_EPOCH } from "../../../src/core/store/entry.js";
import { evaluateFreshness } from "../../../src/core/tier/entry/freshness.js";

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
    expect([at(0), at(9_999), at(10_000), at(14_999), at(15_000), at(29_999), at(30_000)]).toEqual([
      "fresh",
      "fresh",
      "stale-while-revalidate",
      "stale-while-revalidate",
      "stale-if-error",
      "stale-if-error",
      "absent",
    ]);
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
    expect([
      at(10_000, { hasRefreshFailed: true }),
      at(10_000, { hasRefreshFailed: true, freshUntilAt: 10_001 }),
    ]).toEqual(["stale-while-revalidate", "stale-backoff"]);
  });

  it("never makes an entry fresher as time passes", () => {
    const rank = ["fresh", "stale-while-revalidate", "stale-if-error", "absent"];
    const seconds = fc.nat(100);
    fc.assert(
      fc.property(
        seconds,
        seconds,
        seconds,
        fc.nat(300_000),
        fc.nat(300_000),
        (maxAge, staleWhileRevalidate, staleIfError, a, b) => {
          const policy = policyOf({ maxAge, staleWhileRevalidate, staleIfError });
          const entry = entryOf({ freshUntilAt: maxAge * 1000 });
          const [early, late] = [Math.min(a, b), Math.max(a, b)].map((now) =>
            rank.indexOf(evaluateFreshness(entry, policy, now)),
          );
          return (early as number) <= (late as number);
        },
      ),
    );
  });
});
