import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CacheEvent, createCache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, onTestFinished } from "vitest";
import { collectGarbage } from "../../support/collect-garbage.js";
import { dataOf, memoryWorld, waitForStores } from "../../support/world.js";

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

function cacheOn(store: Store, clock?: FakeClock) {
  const outcomes: Record<string, number> = {};
  const events: CacheEvent[] = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    store,
    prefix: "ticks",
    logger: { info: () => undefined, warn: () => undefined },
    onEvent: (event) => {
      if (event.name === "write.finished" || event.name === "store.failed") events.push(event);
      const outcome =
        event.name === "entry.served" ? event.outcome : event.name === "resolver.bypassed" ? event.reason : undefined;
      if (outcome !== undefined) outcomes[outcome] = (outcomes[outcome] ?? 0) + 1;
    },
    ...(clock === undefined ? {} : { testing: { clock } }),
  });
  onTestFinished(() => cache.close());
  return { cache, outcomes, events };
}

describe("ten thousand keys in one tick", () => {
  it("are one load for maxConcurrentLoads, as a batch of a loader", async () => {
    const store = chaosStore(memoryStore());
    const { cache, outcomes, events } = cacheOn(store);
    const sizes: number[] = [];
    const numbers = cache.loader({
      name: "Number",
      maxAge: 60,
      tags: (id: number) => [`Number:${id}`],
      batch: async (ids: readonly number[]) => (sizes.push(ids.length), ids),
    });
    const ids = range(10_000);
    expect(await numbers({}).loadMany(ids)).toEqual(ids);
    expect(sizes).toEqual([10_000]);
    await waitForStores({ events }, 10_000);
    expect(await numbers({}).loadMany(ids)).toEqual(ids);
    expect(outcomes).toEqual({ loaded: 10_000, hit: 10_000 });
    // The tags of values cost the store nothing: they are in the entries.
    expect(store.chaos.calls.get("appendClock") ?? 0).toBeLessThanOrEqual(1);
  }, 120_000);

  it("are loaded in turns of half of maxConcurrentLoads as fields, within the default of maxQueuedLoads", async () => {
    const typeDefs = /* GraphQL */ `
      type Query {
        all: [Item!]!
      }
      type Item {
        id: ID!
        name: String @cached(maxAge: 60)
      }
    `;
    let running = 0;
    let maxRunning = 0;
    const { ask, events, outcomes } = memoryWorld().process(typeDefs, {
      Query: { all: () => range(10_000).map((id) => ({ id })) },
      Item: {
        name: async ({ id }: { id: number }) => {
          maxRunning = Math.max(maxRunning, ++running);
          await Promise.resolve();
          running--;
          return `n${id}`;
        },
      },
    });
    const expected = { all: range(10_000).map((id) => ({ name: `n${id}` })) };
    expect(await dataOf(ask("{ all { name } }"))).toEqual(expected);
    await waitForStores({ events }, 10_000);
    expect(await dataOf(ask("{ all { name } }"))).toEqual(expected);
    expect(outcomes()).toEqual({ loaded: 10_000, hit: 10_000 });
    expect(maxRunning).toBe(50);
  }, 120_000);
});

describe("thousands of keys inside of a batch of as many", () => {
  const heapUsed = (): number => {
    collectGarbage();
    return process.memoryUsage().heapUsed;
  };

  it("take the memory of both, and not that of one for each of the other", async () => {
    const { cache } = cacheOn(memoryStore());
    let before = 0;
    let during = 0;
    const prices = cache.loader({
      name: "Price",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        during = heapUsed();
        return ids;
      },
    });
    const products = cache.loader({
      name: "Product",
      maxAge: 60,
      batch: async (ids: readonly number[], context) => {
        before = heapUsed();
        return prices(context).loadMany(ids);
      },
    });
    const ids = range(2_000);
    expect(await products({}).loadMany(ids)).toEqual(ids);
    expect(during - before).toBeLessThan(20_000 * ids.length);
  }, 120_000);
});

describe("waiting readers", () => {
  it.each([
    ["130,000 of one key", 130_000, 1],
    ["26,000 of 1,000 keys", 26_000, 1_000],
  ])(
    "%s end without an exception when the store hangs",
    async (_, readerCount, keyCount) => {
      const clock = new FakeClock();
      const shared = memoryStore({ clock });
      const holder = cacheOn(shared, clock);
      const { passed, open } = gate();
      const held = holder.cache.loader({
        name: "Number",
        maxAge: 60,
        batch: async (asked: readonly number[]) => {
          await passed;
          return asked;
        },
      });
      const holding = held({}).loadMany(range(keyCount));
      await settle();

      const hanging = chaosStore(shared);
      const waiting = cacheOn(hanging, clock);
      let loads = 0;
      const numbers = waiting.cache.loader({
        name: "Number",
        maxAge: 60,
        batch: async (asked: readonly number[]) => {
          loads += asked.length;
          return asked;
        },
      });
      const readers: Promise<number>[] = [];
      // Every request reads each key once.
      for (let request = 0; request < readerCount / keyCount; request++) {
        const loader = numbers({});
        for (let key = 0; key < keyCount; key++) readers.push(loader.load(key));
      }
      await settle();
      expect(waiting.outcomes).toEqual({});
      hanging.chaos.mode = "hangs";
      for (let step = 0; step < 30; step++) await clock.advance(100);
      const values = await Promise.all(readers);
      expect(values.every((value, reader) => value === reader % keyCount)).toBe(true);
      expect(waiting.outcomes).toEqual({ STORE_UNAVAILABLE: readerCount });
      expect(loads).toBe(keyCount);
      open();
      await holding;
    },
    120_000,
  );
});
