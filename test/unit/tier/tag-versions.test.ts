import { describe, expect, it } from "vitest";
import type { Policy } from "../../../src/policy/policy.js";
import type { Store } from "../../../src/store/store.js";
import { createTagVersions, tagTtlMs, valueTtlMs } from "../../../src/tier/tag-versions.js";

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

  it("of a tag is no shorter than that of any value under it, nor than a load", () => {
    expect(tagTtlMs(policyWith({ jitterRatio: 0.1 }), 5_000)).toBe(11_000);
    expect(tagTtlMs(policyWith({ negativeMaxAgeMs: 20_000 }), 5_000)).toBe(20_000);
    expect(tagTtlMs(policyWith({ maxAgeLimitMs: 20_000, jitterRatio: 0.1 }), 5_000)).toBe(42_000);
    expect(tagTtlMs(policyWith({}), 30_000)).toBe(30_000);
    expect(tagTtlMs(policyWith({ neverExpires: true }), 30_000)).toBeUndefined();
  });
});

describe("the versions of tags", () => {
  it("are created once for each lifetime, and left out where the store fails", async () => {
    const calls: unknown[] = [];
    const store = {
      ensureTags: async (tags: readonly string[], ttlMs: number | undefined) => {
        calls.push([tags, ttlMs]);
        if (ttlMs === undefined) throw new Error("down");
        return tags.map((tag) => `version of ${tag}`);
      },
    } as unknown as Store;
    const request = (more: Partial<Policy>, ...names: string[]) => ({ policy: policyWith(more), tags: { names } });
    const requests = [request({}, "a", "b"), request({}, "b", "c"), request({ neverExpires: true }, "d")];
    const versions = await createTagVersions(store, requests as never, 5_000);
    expect(calls).toEqual([
      [["a", "b", "c"], 10_000],
      [["d"], undefined],
    ]);
    expect([...versions]).toEqual(["a", "b", "c"].map((tag) => [tag, `version of ${tag}`]));
  });
});
