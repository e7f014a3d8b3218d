import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { compilePolicy, type PolicySettings } from "../../../src/policy/policy.js";
import { type Entry, NO_SIGNATURE } from "../../../src/store/entry.js";
import { judge } from "../../../src/tier/judge.js";

const policyOf = (settings: PolicySettings) => compilePolicy({ said: [settings], profiles: {}, defaults: {} }).policy;
const entryOf = (more: Partial<Entry> = {}): Entry => ({
  state: "value",
  isNegative: false,
  isRescued: false,
  loadMs: 0,
  gen: "",
  untilAt: 0,
  freshUntilAt: 10_000,
  grantedAt: 0,
  signature: NO_SIGNATURE,
  body: new Uint8Array(),
  ...more,
});

describe("judging an entry", () => {
  const policy = policyOf({ maxAge: 10, staleWhileRevalidate: 5, staleIfError: 20 });

  it("says fresh until the instant it is stale, and then what the windows allow", () => {
    const at = (now: number) => judge(entryOf(), policy, now, NO_SIGNATURE);
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

  it("finds an entry made under other tag nonces absent, but not a fence", () => {
    expect(judge(entryOf(), policy, 0, "other678")).toBe("absent");
    expect(judge(entryOf({ state: "fenced", untilAt: 5 }), policy, 0, "other678")).toBe("fenced");
    expect(judge(entryOf({ state: "fenced", untilAt: 5 }), policy, 5, "other678")).toBe("absent");
  });

  it("applies a policy that has become shorter at once", () => {
    expect(judge(entryOf(), policyOf({ maxAge: 1 }), 2_000, NO_SIGNATURE)).toBe("absent");
  });

  it("keeps a rescued value in service until its next try, never beyond its windows", () => {
    const rescued = entryOf({ isRescued: true, freshUntilAt: 40_000 });
    expect(judge(rescued, policy, 29_000, NO_SIGNATURE)).toBe("rescued");
    expect(judge(rescued, policy, 30_000, NO_SIGNATURE)).toBe("absent");
  });

  it("never turns fresher as time passes", () => {
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
          const of = policyOf({ maxAge, staleWhileRevalidate, staleIfError });
          const entry = entryOf({ freshUntilAt: maxAge * 1000 });
          const [early, late] = [Math.min(a, b), Math.max(a, b)].map((now) =>
            rank.indexOf(judge(entry, of, now, NO_SIGNATURE)),
          );
          return (early as number) <= (late as number);
        },
      ),
    );
  });
});
