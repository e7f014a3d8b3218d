import { expect, it } from "vitest";
import { compilePolicy, type PolicySettings } from "../../../src/core/policy/policy.js";
import { valueTtlMs } from "../../../src/core/tier/entry/freshness.js";

const ttlOf = (settings: PolicySettings, random: number) =>
  valueTtlMs(
    compilePolicy({ declared: [{ maxAge: 10, jitter: 0, ...settings }], defaults: {} }).policy,
    10_000,
    random,
  );

it("the lifetime of a value in the store covers its freshness, the longer of its stale windows, and jitter", () => {
  const windows = { staleWhileRevalidate: 3, staleIfError: 5, jitter: 0.1 };
  expect([ttlOf(windows, 0), ttlOf(windows, 1)]).toEqual([15_000, 16_000]);
  expect(ttlOf({ staleWhileRevalidate: 3 }, 1)).toBe(13_000);
  expect(ttlOf({ neverExpires: true }, 1)).toBeUndefined();
});
