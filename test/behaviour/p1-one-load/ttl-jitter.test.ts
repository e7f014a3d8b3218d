import { createCache, memoryStore } from "graphql-cached";
import { expect, it, onTestFinished, vi } from "vitest";

it("spreads the TTLs of values that are stored together, and shortens none of them", async () => {
  const store = memoryStore();
  const storeValues = vi.spyOn(store, "storeValues");
  const draws = [0, 0.25, 0.5];
  const cache = createCache({
    defaultScope: "PUBLIC",
    store,
    prefix: "ttl",
    testing: { random: () => draws.shift() ?? 0 },
  });
  onTestFinished(() => cache.close());
  const numbers = cache.loader({
    name: "Number",
    maxAge: 100,
    staleIfError: 10,
    jitter: 0.1,
    earlyRefresh: 0,
    batch: async (ids: readonly number[]) => ids,
  });
  await numbers({}).loadMany([1, 2, 3]);
  await vi.waitFor(() => expect(storeValues).toHaveBeenCalled());
  const [requests = []] = storeValues.mock.lastCall ?? [];
  expect(requests.map(({ freshMs, ttlMs }) => [freshMs, ttlMs])).toEqual([
    [100_000, 110_000],
    [97_500, 112_500],
    [95_000, 115_000],
  ]);
});
