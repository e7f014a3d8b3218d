import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it, vi } from "vitest";
import { listen } from "../../support/listen.js";

it("misses of one key in one tick request its lease once, although each of a thousand readers waits for a refresh on terms of its own", async () => {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  const acquire = vi.spyOn(store, "acquire");
  const { cache } = listen({ store, testing: { clock }, defaults: { jitter: 0, earlyRefresh: 0 } });
  const loads: number[] = [];
  const numbers = cache.loader({
    name: "Number",
    maxAge: 1,
    staleWhileRevalidate: 100,
    refresh: "FOREGROUND",
    batch: async (ids: readonly number[]) => {
      loads.push(...ids);
      return ids.map((id) => id + loads.length);
    },
  });
  await numbers({}).load(1);
  await cache.settled();
  await clock.advance(2_000);
  acquire.mockClear();
  const values = await Promise.all(Array.from({ length: 1_000 }, () => numbers({}).load(1)));
  await cache.settled();
  expect(acquire.mock.calls.map(([requests]) => requests.length)).toEqual([1]);
  expect(loads).toEqual([1, 1]);
  // The one that runs the load has the new value, and the others the stale one.
  expect(values.filter((value) => value === 3)).toHaveLength(1);
  expect(values.filter((value) => value === 2)).toHaveLength(999);
});
