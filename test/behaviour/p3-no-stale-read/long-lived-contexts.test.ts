import { FakeClock, settle } from "@graphql-cached/testing";
import { type Cache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { losableStore } from "../../support/losable-store.js";
import { memoryWorld, waitForStores } from "../../support/world.js";

/** A loader of two processes on one store, and one of a context that lives on, as that of a subscription does. */
function start(maxAge = 60, own: object = {}, clock = new FakeClock(), store: Store = memoryStore({ clock })) {
  const world = memoryWorld(() => store);
  const source = { value: 1, loads: 0 };
  const batch = async (ids: readonly number[]) => ids.map(() => (source.loads++, source.value));
  const startProcess = () => {
    const process = world.process("type Query { unused: Int }", {}, { testing: { clock } });
    const loader = process.cache.loader({ name: "Value", maxAge, tags: (id) => [`Value:${id}`], batch, ...own });
    return { ...process, loader };
  };
  const here = startProcess();
  return { clock, source, values: here.loader({}), here, elsewhere: startProcess() };
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

/** What keeps a request from having a key for an id. */
const WITHOUT_KEY: Readonly<Record<string, { readonly own: object; readonly isBypassed: boolean }>> = {
  "the request bypasses the cache": { own: {}, isBypassed: true },
  "no key can be made of its id": {
    own: {
      cacheKeyFn: () => {
        throw new Error("no key");
      },
    },
    isBypassed: false,
  },
};

describe("a loader whose context outlives its request", () => {
  it.each<[string, (cache: Cache) => Promise<void>]>([
    ["id", (cache) => cache.invalidate({ loader: "Value", id: 1 })],
    ["loader", (cache) => cache.invalidate({ loader: "Value" })],
    ["tag", (cache) => cache.invalidateTags(["Value:1"])],
    ["everything", (cache) => cache.clear()],
  ])(
    "does not remember a value once this process knows that another one has invalidated it: by %s",
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

  it("counts the maxAge from the start of the load, not from when it has asked", async () => {
    const site = start(10);
    const { clock, elsewhere } = site;
    await elsewhere.loader({}).load(1);
    await waitForStores(elsewhere);
    await clock.advance(9_000);
    await expectKept(site, 1_000);
  });

  it("counts it so for a value in memory", async () => {
    const site = start(10);
    const { clock, here } = site;
    await here.loader({}).load(1);
    await waitForStores(here);
    await clock.advance(9_000);
    await expectKept(site, 1_000);
  });

  it("remembers a value with a shorter lifetime of its own no longer than that", async () => {
    const site = start(60, { negativeMaxAge: 5 });
    site.source.value = null as never;
    await expectKept(site, 5_000, null);
  });

  it("remembers a value without a lifetime for a second, and a failure for the maxAge", async () => {
    const site = start(60, { negativeMaxAge: 0 });
    const { clock, source, values } = site;
    source.value = null as never;
    await expectKept(site, 1_000, null);
    source.value = new Error("no value") as never;
    await expect(values.load(3)).rejects.toThrow("no value");
    source.value = 4;
    await clock.advance(59_999);
    await expect(values.load(3)).rejects.toThrow("no value");
    await clock.advance(1);
    expect(await values.load(3)).toBe(4);
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

  it("remembers one promise for each id as long as neither happens", async () => {
    const { source, values, here, elsewhere } = start();
    const first = values.load(1);
    await first;
    await elsewhere.cache.invalidate({ loader: "Value", id: 3 });
    await elsewhere.cache.invalidateTags(["Value:4"]);
    await here.loader({}).load(2);
    expect(values.load(1)).toBe(first);
    expect(source.loads).toBe(2);
  });

  it.each(Object.entries(WITHOUT_KEY))(
    "does not remember what it has read without a key once something is invalidated, or its maxAge is over: %s",
    async (_, { own, isBypassed }) => {
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
