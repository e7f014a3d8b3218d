import { FakeClock } from "@graphql-cached/testing";
import { createCache, memoryStore } from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";

/** A loader of one key that counts what it asks its store for, and what its source is called with. */
function counted(policy: {
  readonly maxAge: number;
  readonly staleWhileRevalidate?: number;
  readonly refresh?: "FOREGROUND";
}) {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const acquire = vi.spyOn(store, "acquire");
  const cache = createCache({
    defaultScope: "PUBLIC",
    store,
    testing: { clock },
    defaults: { jitter: 0, earlyRefresh: 0 },
  });
  onTestFinished(() => cache.close());
  const loads: number[] = [];
  const numbers = cache.loader({
    name: "Number",
    ...policy,
    batch: async (ids: readonly number[]) => {
      loads.push(...ids);
      return ids.map((id) => id + loads.length);
    },
  });
  const requests = (): number => acquire.mock.calls.reduce((sum, [asked]) => sum + asked.length, 0);
  return { clock, cache, numbers, loads, requests, acquire };
}

describe("misses of one key in one tick", () => {
  it("request its lease once, although each of a thousand readers waits for a refresh on terms of its own", async () => {
    const { clock, cache, numbers, loads, requests, acquire } = counted({
      maxAge: 1,
      staleWhileRevalidate: 100,
      refresh: "FOREGROUND",
    });
    await numbers({}).load(1);
    await cache.settled();
    await clock.advance(2_000);
    acquire.mockClear();
    const values = await Promise.all(Array.from({ length: 1_000 }, () => numbers({}).load(1)));
    await cache.settled();
    expect(requests()).toBe(1);
    expect(loads).toEqual([1, 1]);
    // The one that runs the load has the new value, and the others the stale one.
    expect(values.filter((value) => value === 3)).toHaveLength(1);
    expect(values.filter((value) => value === 2)).toHaveLength(999);
  });
});
