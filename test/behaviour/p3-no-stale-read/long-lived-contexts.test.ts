import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type BatchCall, type Cache, createCache, memoryStore, type ResultControl } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { collectGarbage } from "../../support/collect-garbage.js";
import { losableStore } from "../../support/losable-store.js";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, memoryWorld, pair, waitForStores } from "../../support/world.js";

/**
 * Two processes on one store with a loader each, the loaders of a context that lives on, as that of a subscription does,
 * and a loader `Page`, which has no tags but those that its loads set.
 */
function start(maxAge = 60, own: object = {}, clock = new FakeClock(), store: Store = memoryStore({ clock })) {
  const world = memoryWorld(() => store);
  const source = { value: 1 as unknown, loads: [] as (readonly number[])[] };
  const load = async (ids: readonly number[]) => (source.loads.push(ids), ids.map(() => source.value));
  const startProcess = () => {
    const sdl = 'type Query { a: Int } type Mutation { rate(id: ID!): Int @invalidates(tags: ["Value:{$args.id}"]) }';
    const rate = () => (source.value = 2);
    const process = world.process(sdl, { Mutation: { rate } }, { testing: { clock } });
    const { cache } = process;
    const loader = cache.loader({ name: "Value", maxAge, tags: (id) => [`Value:${id}`], batch: load, ...own });
    const pages = cache.loader({
      name: "Page",
      maxAge,
      batch: (ids: readonly number[], _context: object, { results }) => {
        for (const [index, id] of ids.entries()) results[index]?.set({ tags: [`Page:${id}`] });
        return load(ids);
      },
    });
    return { ...process, loader, pages };
  };
  const [here, elsewhere] = pair(startProcess);
  return { clock, source, values: here.loader({}), here, elsewhere };
}

/** Expects that `value` is remembered for `ms`, and then the one that the source has by now. */
async function expectKept({ clock, source, values }: ReturnType<typeof start>, ms: number, value: number | null = 1) {
  expect(await values.load(1)).toBe(value);
  source.value = 2;
  await clock.advance(ms - 1);
  expect(await values.load(1)).toBe(value);
  await clock.advance(1);
  expect(await values.load(1)).toBe(2);
}

const INVALIDATIONS: readonly (readonly [by: string, invalidate: (cache: Cache) => Promise<void>])[] = [
  ["by id", (cache) => cache.invalidate({ loader: "Value", id: 1 })],
  ["as a whole", (cache) => cache.invalidate({ loader: "Value" })],
  ["by tag", (cache) => cache.invalidateTags(["Value:1"])],
  ["with everything", (cache) => cache.clear()],
  ["by a write", (cache) => cache.mutate({ tags: ["Value:1"] }, () => undefined)],
];

describe("a loader in the request that invalidates", () => {
  it("reads again what an @invalidates mutation concerns, and only that", async () => {
    const { here, source } = start();
    const context = {};
    expect(await here.loader(context).loadMany([1, 8])).toEqual([1, 1]);
    await dataOf(here.ask("mutation { rate(id: 1) }", context));
    expect(await here.loader(context).loadMany([1, 8])).toEqual([2, 1]);
    expect(await here.loader(context).load(1)).toBe(2);
    expect(source.loads).toEqual([[1, 8], [1]]);
  });

  it.each(INVALIDATIONS)("reads again what was invalidated %s", async (_, invalidate) => {
    const { source, values, here } = start();
    expect(await values.load(1)).toBe(1);
    source.value = 2;
    await invalidate(here.cache);
    expect(await values.load(1)).toBe(2);
  });

  it("reads again what was invalidated softly, once it is refreshed", async () => {
    const { source, values, here } = start();
    expect(await values.load(1)).toBe(1);
    source.value = 2;
    await here.cache.invalidateTags(["Value:1"], { soft: true });
    await expect.poll(() => here.loader({}).load(1)).toBe(2);
    expect(await values.load(1)).toBe(2);
  });

  it("reads again what was read while the invalidation was under way", async () => {
    const clock = new FakeClock();
    const inner = memoryStore({ clock });
    const held = gate();
    const appendClock: Store["appendClock"] = async (records) => {
      if (records.length > 0) await held.passed;
      return inner.appendClock(records);
    };
    const { source, values, here } = start(60, {}, clock, overrideStore(inner, { appendClock }));
    await here.loader({}).load(1);
    await waitForStores(here);
    source.value = 2;
    const invalidated = here.cache.invalidateTags(["Value:1"]);
    // Its own process uses nothing older from then on, although the store has not confirmed.
    expect(await values.load(1)).toBe(2);
    source.value = 3;
    held.open();
    await invalidated;
    expect(await values.load(1)).toBe(3);
  });

  it.each([
    ["has", "here"],
    ["in another process has", "elsewhere"],
  ] as const)("reads again what was invalidated by a tag that its load %s set", async (_, where) => {
    const { source, here, [where]: loading } = start();
    await loading.pages({}).load(7);
    await waitForStores(loading);
    const values = here.pages({});
    expect(await values.load(7)).toBe(1);
    source.value = 2;
    await here.cache.invalidateTags(["Page:7"]);
    expect(await values.load(7)).toBe(2);
  });

  it("keeps what the request has primed after the invalidation", async () => {
    const { values, here } = start();
    expect(await values.load(1)).toBe(1);
    await here.cache.invalidateTags(["Value:1"]);
    expect(await values.prime(1, 100).load(1)).toBe(100);
  });
});

describe("a loader whose context outlives its request", () => {
  it.each(INVALIDATIONS)(
    "does not remember a value once this process knows that another one has invalidated it: %s",
    async (_, invalidate) => {
      const { source, values, here, elsewhere } = start();
      expect(await values.load(1)).toBe(1);
      await waitForStores(here);
      source.value = 2;
      await invalidate(elsewhere.cache);
      // Another request of this process, whose read shows the head of the clock.
      await here.loader({}).load(2);
      expect(await values.load(1)).toBe(2);
    },
  );

  it("does not remember a value that is invalidated under a clock that has begun anew at an earlier position", async () => {
    const clock = new FakeClock();
    const { store, lose } = losableStore(clock);
    const { source, values, here, elsewhere } = start(60, {}, clock, store);
    await here.loader({}).load(3);
    expect(await values.load(1)).toBe(1);
    await waitForStores(here, 2);
    lose(60_000);
    source.value = 2;
    await elsewhere.cache.invalidate({ loader: "Value", id: 1 });
    await here.loader({}).load(2);
    expect(await values.load(1)).toBe(2);
    // Its position is earlier than the first one that this process knew.
    await waitForStores(here, 3);
    source.value = 3;
    await elsewhere.cache.invalidate({ loader: "Value", id: 1 });
    await here.loader({}).load(4);
    expect(await values.load(1)).toBe(3);
  });

  it("does not remember a value for longer than its maxAge", async () => {
    await expectKept(start(1), 1_000);
  });

  it.each([
    ["the store", "elsewhere"],
    ["memory", "here"],
  ] as const)(
    "counts the maxAge from the start of the load, not from when it has asked, for a value in %s",
    async (_, where) => {
      const site = start(10);
      await site[where].loader({}).load(1);
      await waitForStores(site[where]);
      await site.clock.advance(9_000);
      await expectKept(site, 1_000);
    },
  );

  it("remembers a value with a shorter lifetime of its own no longer than that", async () => {
    const site = start(60, { negativeMaxAge: 5 });
    site.source.value = null;
    await expectKept(site, 5_000, null);
  });

  it("remembers a value without a lifetime for a second, and a failure for the maxAge", async () => {
    const site = start(60, { negativeMaxAge: 0 });
    const { clock, source, values } = site;
    source.value = null;
    await expectKept(site, 1_000, null);
    source.value = new Error("no value");
    await expect(values.load(3)).rejects.toThrow("no value");
    source.value = 4;
    await clock.advance(59_999);
    await expect(values.load(3)).rejects.toThrow("no value");
    await clock.advance(1);
    expect(await values.load(3)).toBe(4);
  });

  const throwNoKey = (): never => {
    throw new Error("no key");
  };
  /** The source that calls `set` or `skip` for its result. */
  const controlled = (control: (result: ResultControl) => void, value: number | null = 1) => ({
    batch: async (ids: readonly number[], _context: object, { results }: BatchCall) => {
      for (const result of results) control(result);
      return ids.map(() => value);
    },
  });
  it.each<[what: string, own: object, ms: number, value?: null]>([
    ["null", { batch: async (ids: readonly number[]) => ids.map(() => null), negativeMaxAge: 5 }, 5_000, null],
    ["a value with a maxAge of its own", controlled((result) => result.set({ maxAge: 4 })), 4_000],
    ["a value that is not to be stored", controlled((result) => result.skip()), 1_000],
    [
      "null without a key",
      { cacheKeyFn: throwNoKey, batch: async (ids: readonly number[]) => ids.map(() => null) },
      10_000,
      null,
    ],
  ])("remembers %s for no longer while the store is away", async (_, own, ms, value) => {
    const clock = new FakeClock();
    const away = () => Promise.reject(new Error("away"));
    const { values } = start(60, own, clock, overrideStore(memoryStore({ clock }), { read: away, acquire: away }));
    const first = values.load(1);
    expect(await first).toBe(value === null ? null : 1);
    await clock.advance(ms - 1);
    expect(values.load(1)).toBe(first);
    await clock.advance(1);
    expect(values.load(1)).not.toBe(first);
  });

  it("remembers for a second that an id does not exist", async () => {
    const known = new Set<number>();
    const site = start(60, { exists: { has: async (ids: readonly number[]) => ids.map((id) => known.has(id)) } });
    const { clock, values } = site;
    expect(await values.load(1)).toBe(null);
    known.add(1);
    await clock.advance(999);
    expect(await values.load(1)).toBe(null);
    await clock.advance(1);
    expect(await values.load(1)).toBe(1);
  });

  it("remembers a stale value for a second", async () => {
    const site = start(10, { staleWhileRevalidate: 60 });
    const { clock, source, values, here, elsewhere } = site;
    await elsewhere.loader({}).load(1);
    await waitForStores(elsewhere);
    source.value = 2;
    await clock.advance(11_000);
    expect(await values.load(1)).toBe(1);
    await waitForStores(here);
    await expectKept(site, 1_000);
  });

  it("does not remember a primed value once it is invalidated, or its maxAge is over", async () => {
    const { clock, source, values, here, elsewhere } = start(10);
    await here.loader({}).load(7);
    values.prime(1, 5).prime(2, 5);
    expect(await values.loadMany([1, 2])).toEqual([5, 5]);
    source.value = 2;
    await elsewhere.cache.invalidate({ loader: "Value", id: 1 });
    await here.loader({}).load(8);
    expect(await values.loadMany([1, 2])).toEqual([2, 5]);
    await clock.advance(10_000);
    expect(await values.loadMany([1, 2])).toEqual([2, 2]);
  });

  it("keeps nothing in memory of ids that it is not asked for again", async () => {
    const { clock, values, here } = start(10, { batch: async (ids: readonly number[]) => ids.map((id) => ({ id })) });
    const first: WeakRef<object>[] = [];
    const read = async (id: number): Promise<void> =>
      void first.push(new WeakRef<object>(Object(await values.load(id))));
    await read(1);
    await here.cache.wrap({ name: "inLoad", maxAge: 10, load: () => read(2) })();
    await clock.advance(10_000);
    for (let id = 3; id < 300; id++) await values.load(id);
    collectGarbage();
    expect(first.map((ref) => ref.deref())).toEqual([undefined, undefined]);
  });

  it("keeps no cache that it was used with before", async () => {
    const context = {};
    const use = async (): Promise<WeakRef<object>> => {
      const cache = createCache({ defaultScope: "PUBLIC" });
      const batch = async (ids: readonly number[]) => ids;
      await cache.loader({ name: "Value", maxAge: 60, batch })(context).load(1);
      await settle();
      await cache.close();
      return new WeakRef(batch);
    };
    const used = await Promise.all([use(), use(), use()]);
    // What was used last can still be in a frame.
    await use();
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(used.map((ref) => ref.deref())).toEqual([undefined, undefined, undefined]);
    expect(context).toEqual({});
  });

  it("keeps nothing in memory of ids that were cleared after an error", async () => {
    const cacheKeyFn = (id: unknown): number => (typeof id === "number" ? id : throwNoKey());
    const batch = async (ids: readonly unknown[]) => ids.map((id) => (typeof id === "number" ? id : new Error("away")));
    const { clock, values } = start(10, { cacheKeyFn, batch });
    const fail = async (id: object): Promise<WeakRef<object>> => {
      await values.load(id as never).catch(() => values.clear(id as never));
      return new WeakRef(id);
    };
    const failed = await fail({});
    await clock.advance(10_000);
    for (let id = 0; id < 300; id++) await values.load(id);
    // The source has its last batch.
    await fail({});
    collectGarbage();
    expect(failed.deref()).toBeUndefined();
  });

  it("does not remember a value that is invalidated while the store has been away since the process began", async () => {
    const away = () => Promise.reject(new Error("away"));
    const broken = { read: away, acquire: away, appendClock: away, readClock: away, remove: away };
    const clock = new FakeClock();
    const { source, values, here } = start(60, {}, clock, overrideStore(memoryStore({ clock }), broken));
    expect(await values.load(1)).toBe(1);
    source.value = 2;
    const code = "CACHED_STORE_UNAVAILABLE";
    await expect(here.cache.invalidate({ loader: "Value", id: 1 })).rejects.toMatchObject({ code });
    expect(await values.load(1)).toBe(2);
  });

  it("remembers one promise for each id as long as neither happens", async () => {
    const { source, values, here, elsewhere } = start();
    const first = values.load(1);
    await first;
    await elsewhere.cache.invalidate({ loader: "Value", id: 3 });
    await elsewhere.cache.invalidateTags(["Value:4"]);
    await here.loader({}).load(2);
    expect(values.load(1)).toBe(first);
    expect(source.loads).toEqual([[1], [2]]);
  });

  it.each([
    ["the request bypasses the cache", true, {}],
    ["no key can be made of its id", false, { cacheKeyFn: throwNoKey }],
  ])(
    "does not remember what it has read without a key once something is invalidated, or its maxAge is over: %s",
    async (_, isBypassed, own) => {
      const { clock, source, here } = start(10, own);
      const context = {};
      if (isBypassed) here.cache.override(context, "BYPASS");
      const values = here.loader(context);
      const first = values.load(1);
      expect(await first).toBe(1);
      expect(values.load(1)).toBe(first);
      source.value = 2;
      await here.cache.invalidate(isBypassed ? { loader: "Value", id: 1 } : { loader: "Value" });
      await settle();
      expect(await values.load(1)).toBe(2);
      source.value = 3;
      await clock.advance(9_999);
      expect(await values.load(1)).toBe(2);
      await clock.advance(1);
      expect(await values.load(1)).toBe(3);
      values.prime(2, 20);
      expect(await values.load(2)).toBe(20);
      await here.cache.invalidateTags(["Value:2"]);
      await settle();
      expect(await values.prime(2, 21).load(2)).toBe(21);
      await here.cache.invalidateTags(["Value:2"]);
      await settle();
      expect(await values.load(2)).toBe(3);
    },
  );
});
