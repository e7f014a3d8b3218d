import { FakeClock, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { fleet, KINDS, type Shop, Source } from "../../support/shop.js";
import { onEachStore } from "../../support/world.js";

const LEASE_MS = 3_000;
const kinds = Object.entries(KINDS);

onEachStore("an invalidation", (world) => {
  it.each(kinds)(
    "of %s keeps every later reader from what was stored or loaded before it, whoever reads it meanwhile",
    async (_, { what, invalidate, isLate, isRefused }) => {
      const shared = world();
      const source = new Source();
      const shops = [source.start(shared), source.start(shared), source.start(shared)] as const;
      const [loading, invalidating, third] = shops;
      const readAll = () => Promise.all(shops.map((shop) => shop.read(what)));
      const change = async (): Promise<void> => {
        source.version++;
        await invalidate(invalidating.cache);
      };
      await readAll();
      for (const reader of [undefined, loading, third]) {
        const { version, loads } = source;
        expect(await readAll()).toEqual([version, version, version]);
        await change();
        const held = source.hold();
        const earlier = loading.read(what);
        while (source.loads === loads) await settle();
        await change();
        const later = reader?.read(what);
        if (isLate) for (let turn = 0; turn < 10; turn++) await settle();
        else if (reader !== undefined) expect(await later).toBe(version + 2);
        held.open();
        expect(await earlier).toBe(version + 1);
        expect(await (later ?? version + 2)).toBe(version + 2);
        await loading.drain();
        if (reader === undefined) expect(loading.lastWrite()).toMatchObject({ isStored: isRefused !== true });
        for (const shop of shops) expect(await shop.read(what)).toBe(version + 2);
        expect(source.loads).toBe(loads + 2);
        await Promise.all(shops.map((shop) => shop.drain()));
      }
    },
  );

  it.each(kinds)(
    "of %s that is soft never makes a load fresh that began before, and lets all processes serve the old value while one of them loads it again",
    async (_, { what, invalidate }) => {
      const shared = world();
      const source = new Source();
      const [one, two] = [source.start(shared), source.start(shared)];
      let held = source.hold();
      const first = one.read(what);
      while (source.loads === 0) await settle();
      for (let nth = 1; nth <= 2; nth++) {
        source.version++;
        await invalidate(two.cache, { soft: true });
        if (nth === 1) {
          held.open();
          expect(await first).toBe(1);
          await one.drain();
        }
        held = source.hold();
        // The second process reads before and during the refresh that it starts.
        expect([await two.read(what), await one.read(what), await two.read(what)]).toEqual([nth, nth, nth]);
        while (source.loads === nth) await settle();
        held.open();
        await expect.poll(async () => [await one.read(what), await two.read(what)]).toEqual([nth + 1, nth + 1]);
        await two.drain();
      }
      expect(source.loads).toBe(3);
    },
  );
});

describe.each(kinds)("an invalidation of %s", (kind, { what, invalidate }) => {
  it("counts from the first of two loads if its lease is taken over", async () => {
    const { clock, source, start } = fleet(0);
    // The first process does not renew its lease.
    const [first, second, third] = [start(new FakeClock()), start(), start()];
    const holds = [source.hold(), source.hold()] as const;
    const ofFirst = first.read(what);
    while (source.loads === 0) await settle();
    source.version = 2;
    await invalidate(third.cache);
    await clock.advance(LEASE_MS + 1);
    const ofSecond = second.read(what);
    while (source.loads === 1) await settle();
    holds[0].open();
    expect(await ofFirst).toBe(1);
    await settle();
    const ofThird = third.read(what);
    await settle();
    holds[1].open();
    await clock.advance(500);
    expect([await ofSecond, await ofThird, await first.read(what)]).toEqual([2, 2, 2]);
  });

  it.each([
    ["again soon", { hits: 1 }],
    ["again soon, whether its process has read the value or not", { hits: 0 }],
    ["as a hard one if it is soft", { hits: 1, soft: true }],
    ["while the cache closes", { hits: 1, isClosed: true }],
  ])("rejects if the store does not confirm it, is in force in its process, and is sent %s", async (_, variant) => {
    const { clock, source, store, shops } = fleet(3);
    const [loading, other, process] = shops as [Shop, Shop, Shop];
    await loading.read(what);
    await loading.read("other");
    await settle();
    for (let nth = 0; nth < variant.hits; nth++) await process.read(what);
    expect(source.loads).toBe(2);
    source.version = 2;
    store.chaos.mode = "throws";
    const unavailable = { code: "CACHED_STORE_UNAVAILABLE" };
    const options = "soft" in variant ? { soft: true } : undefined;
    await expect(invalidate(process.cache, options)).rejects.toMatchObject(unavailable);
    store.chaos.mode = undefined;
    expect([await process.read(what), await process.read(what)]).toEqual([2, 2]);
    if (kind !== "everything") expect([await process.read("other"), source.loads]).toEqual([1, 4]);
    if ("isClosed" in variant) await process.cache.close();
    else await clock.advance(1_000);
    source.version = 3;
    const { loads } = source;
    expect([await other.read(what), await other.read(what), source.loads]).toEqual([3, 3, loads + 1]);
    if ("isClosed" in variant) return;
    await settle();
    expect([await process.read(what), source.loads]).toEqual([3, loads + 1]);
  });

  it("that is soft does not load again for errorBackoffMs after the load has failed", async () => {
    const { clock, source, shops } = fleet(1);
    const [shop] = shops as [Shop];
    await shop.read(what);
    await settle();
    await invalidate(shop.cache, { soft: true });
    source.error = new Error("source is down");
    for (let nth = 0; nth < 5; nth++) {
      expect(await shop.read(what)).toBe(1);
      await settle();
    }
    expect(source.loads).toBe(2);
    source.error = undefined;
    source.version = 2;
    await clock.advance(10_000);
    await shop.read(what);
    await settle();
    expect([await shop.read(what), source.loads]).toEqual([2, 3]);
  });
});

onEachStore("a soft invalidation", (world) => {
  it("is undone by nothing, and is followed by a hard one as if it had not been", async () => {
    const source = new Source();
    const { cache, read, drain } = source.start(world());
    const FIELDS = ["tagged", "field", "found"];
    for (const what of FIELDS) await read(what);
    await drain();
    await cache.invalidateTags(["Item:7"], { soft: true });
    await cache.clear({ soft: true });
    source.version = 2;
    await cache.invalidateTags(["Item:7"]);
    await cache.invalidate({ coordinate: "Query.field" });
    for (let nth = 0; nth < 2; nth++) {
      for (const what of FIELDS) expect(await read(what)).toBe(2);
      await drain();
    }
    expect(source.loads).toBe(6);
  });
});

describe("a soft invalidation", () => {
  it.each([
    ["lets the caller that wins the lease wait for the new value with refresh: FOREGROUND", "waiting", 2],
    ["refreshes values that never expire", "forever", 1],
  ])("%s", async (_, what, first) => {
    for (const tag of what === "waiting" ? ["Item:7", "Found:7"] : ["Item:7"]) {
      const { source, shops } = fleet(1);
      const [{ read, cache }] = shops as [Shop];
      await read(what);
      await settle();
      source.version = 2;
      await cache.invalidateTags([tag], { soft: true });
      expect(await read(what)).toBe(first);
      await settle();
      expect([await read(what), source.loads]).toEqual([2, 2]);
    }
  });

  it("does not serve the old value beyond its maxAge", async () => {
    const { clock, source, shops } = fleet(1);
    const [{ read, cache }] = shops as [Shop];
    await read("tagged");
    await settle();
    source.version = 2;
    await cache.invalidateTags(["Item:7"], { soft: true });
    await clock.advance(600_000);
    expect(await read("tagged")).toBe(2);
  });

  it("is refused with other options than soft: true or false", async () => {
    const [{ cache }] = fleet(1).shops as [Shop];
    for (const options of [{ soft: "yes" }, { hard: true }, null, true] as never[])
      for (const call of [
        () => cache.invalidate({ coordinate: "Query.field" }, options),
        () => cache.invalidateTags(["T"], options),
        () => cache.clear(options),
      ])
        await expect(call()).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
  });
});
