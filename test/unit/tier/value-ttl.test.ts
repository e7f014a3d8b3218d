import { describe, expect, it } from "vitest";
import type { Policy } from "../../../src/core/policy/policy.js";
import { valueTtlMs } from "../../../src/core/tier/entry/freshness.js";

const policyWith = (more: Partial<Policy>): Policy => ({
  ...({} as Policy),
  maxAgeMs: 10_000,
  negativeMaxAgeMs: 1_000,
  staleWhileRevalidateMs: 0,
  staleIfErrorMs: 0,
  jitterRatio: 0,
  neverExpires: false,
  ...more,
});

describe("the lifetime in the store", () => {
  it("of a value covers its freshness, the longer of its stale windows, and jitter", () => {
    const policy = policyWith({ staleWhileRevalidateMs: 3_000, staleIfErrorMs: 5_000, jitterRatio: 0.1 });
    expect(valueTtlMs(policy, 10_000, 0)).toBe(15_000);
    expect(valueTtlMs(policy, 10_000, 1)).toBe(16_000);
    expect(valueTtlMs(policyWith({ staleWhileRevalidateMs: 3_000 }), 10_000, 1)).toBe(13_000);
    expect(valueTtlMs(policyWith({ neverExpires: true }), 10_000, 1)).toBeUndefined();
  });
});
