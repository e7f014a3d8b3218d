import { settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { fleet, type Shop, Source } from "../../support/shop.js";
import { dataOf, memoryWorld, onEachStore, waitForStores } from "../../support/world.js";

onEachStore("cache.invalidate of a whole field", (world) => {
  it("reaches the entries of all arguments, identities, selections and releases, and no other field", async () => {
    const shared = world();
    const source = new Source();
    const [shop, release] = [source.start(shared), source.start(shared, { type: "NewItem" })];
    const PLAIN = ["field", 'field(id: 2, lang: "de") { version }', "selected", "selected(id: 7) { version id }"];
    const readAll = async () => [
      ...(await Promise.all(PLAIN.map((what) => shop.read(what)))),
      ...(await Promise.all(["ann", "bob"].map((user) => shop.read("mine", 1, user)))),
      await release.read("field"),
      await shop.read("other"),
    ];
    const same = (version: number, ofOther: number) => [...Array<number>(7).fill(version), ofOther];
    expect(await readAll()).toEqual(same(1, 1));
    for (const { drain } of [shop, release]) await drain();
    expect([await readAll(), source.loads]).toEqual([same(1, 1), 8]);
    source.version = 2;
    for (const coordinate of ["Query.field", "Query.mine", "Query.selected"])
      await shop.cache.invalidate({ coordinate });
    expect([await readAll(), source.loads]).toEqual([same(2, 1), 15]);
  });

  it.each(["", ', key: ["$args", "$selection"]'])(
    "reaches the entries of a release that has added an argument, from one in which the field has none, with %j",
    async (key) => {
      const shared = world();
      let version = 1;
      const start = (args: string) => {
        const sdl = `type Query { settings${args}: Int @cached(maxAge: 60${key}) }`;
        return shared.process(sdl, { Query: { settings: () => version } });
      };
      const [old, next] = [start(""), start("(locale: String)")];
      const read = () => dataOf(next.ask('{ settings(locale: "de") }'));
      await read();
      await waitForStores(next);
      version = 2;
      expect(await read()).toEqual({ settings: 1 });
      await old.cache.invalidate({ coordinate: "Query.settings" });
      expect(await read()).toEqual({ settings: 2 });
    },
  );

  it("invalidates a loader, one entry of it, or the entry of one identity", async () => {
    const shared = world();
    const source = new Source();
    const [{ read, drain }, { cache }] = [source.start(shared), source.start(shared)];
    const readAll = async () => {
      const values = [await read("Loader", 1), await read("Loader", 2)];
      const own = [await read("Own", 1, "ann"), await read("Own", 1, "bob")];
      await drain();
      return [...values, ...own];
    };
    expect(await readAll()).toEqual([1, 1, 1, 1]);
    const steps: readonly (readonly [target: object, values: readonly number[]])[] = [
      [{ loader: "Loader", id: 1 }, [2, 1, 1, 1]],
      [{ loader: "Own", id: 1, private: "ann" }, [2, 1, 3, 1]],
      [{ loader: "Loader" }, [4, 4, 3, 1]],
      [{ loader: "Own" }, [4, 4, 5, 5]],
    ];
    for (const [target, values] of steps) {
      source.version++;
      await cache.invalidate(target as never);
      expect(await readAll()).toEqual(values);
    }
  });

  it("clears everything under the prefix: fields and loaders, and nothing of another prefix", async () => {
    const source = new Source();
    const [shop, stranger] = [source.start(world()), source.start(world())];
    const readAll = ({ read }: Shop) =>
      Promise.all(["field", "mine", "Loader", "Call"].map((what) => read(what, 7, "ann")));
    for (const one of [shop, stranger]) {
      await readAll(one);
      await one.drain();
    }
    source.version = 2;
    await shop.cache.clear();
    expect([...(await readAll(shop)), ...(await readAll(stranger))]).toEqual([2, 2, 2, 2, 1, 1, 1, 1]);
  });
});

describe("the cost of cache.invalidate", () => {
  it("of a whole field is the same number of store operations for one entry and for two hundred", async () => {
    const operations: object[] = [];
    for (const count of [1, 200]) {
      const { store, shops } = fleet(1);
      const [{ cache, read }] = shops as [Shop];
      await Promise.all(Array.from({ length: count }, (_, id) => Promise.all([read("Loader", id), read("field", id)])));
      await settle();
      store.chaos.calls.clear();
      await cache.invalidate({ coordinate: "Query.field" });
      await cache.invalidate({ loader: "Loader" });
      await cache.clear();
      await settle();
      operations.push(Object.fromEntries(store.chaos.calls));
    }
    // Each record is read back once: the log may have others that this process does not know.
    expect(operations).toEqual([1, 2].map(() => ({ appendClock: 3, readClock: 3 })));
  });

  it("is one record of the invalidation clock for each call", async () => {
    const { store, shops } = fleet(1);
    const [{ cache, read }] = shops as [Shop];
    await read("field");
    await settle();
    store.chaos.calls.clear();
    await Promise.all(Array.from({ length: 50 }, () => cache.invalidate({ coordinate: "Query.field" })));
    expect(store.chaos.calls.get("appendClock")).toBe(50);
  });

  it("of 10,000 tags in one call is two steps of the store, which reach exactly their values", async () => {
    const { source, store, shops } = fleet(2);
    const [one, other] = shops as [Shop, Shop];
    const readAll = async ({ read }: Shop) => Promise.all([0, 9_999, 10_000].map((id) => read("tagged", id)));
    await readAll(one);
    await settle();
    source.version = 2;
    store.chaos.calls.clear();
    await one.cache.invalidateTags(Array.from({ length: 10_000 }, (_, id) => `Item:${id}`));
    // 10,000 tags and that of their type: one more than a record has.
    expect(store.chaos.calls.get("appendClock")).toBe(2);
    expect(await readAll(other)).toEqual([2, 2, 1]);
  });

  it.each(["tagged", "found"])(
    "of 140,000 other tags is the values whose invalidation the store has dropped from its log, also in a process that has slept: %s",
    async (what) => {
      const { source, shops } = fleet(3);
      const [process, sleeping, third] = shops as [Shop, Shop, Shop];
      for (const { read } of [process, sleeping]) await read(what);
      await settle();
      source.version = 2;
      await third.cache.invalidateTags(["Item:7"]);
      for (let nth = 0; nth < 14; nth++)
        await third.cache.invalidateTags(Array.from({ length: 10_000 }, (_, id) => `Other${nth}:${id}`));
      await process.read("field");
      for (const { read } of [sleeping, process, third]) expect(await read(what)).toBe(2);
    },
  );
});

describe("more unconfirmed invalidations than can be kept", () => {
  const MANY = Array.from({ length: 10_001 }, (_, nth) => `tag ${nth}`);

  it("become a clear, until whose confirmation nothing is read, and are reported", async () => {
    const { clock, store, source, shops } = fleet(1);
    const [{ cache, read, events, warnings, outcomes }] = shops as [Shop];
    await read("field");
    await settle();
    expect([await read("field"), source.loads]).toEqual([1, 1]);
    store.chaos.mode = "throws";
    source.version = 2;
    await expect(cache.invalidateTags(MANY)).rejects.toThrow();
    expect(events.filter(({ name }) => name === "invalidations.overflowed")).toHaveLength(1);
    expect(warnings.filter((line) => line.includes("more than 10000 keys or tags"))).toHaveLength(1);
    // None of the names concerns this entry, but nobody can tell any more.
    expect(await read("field")).toBe(2);
    store.chaos.mode = undefined;
    await clock.advance(6_000);
    expect(await read("field")).toBe(2);
    await settle();
    const { loads } = source;
    expect([await read("field"), source.loads, outcomes().hit]).toEqual([2, loads, 2]);
  });

  it("are no names to remember any more, however many fail", async () => {
    const { clock, store, source, shops } = fleet(1);
    const [{ cache, read }] = shops as [Shop];
    await read("field");
    await settle();
    const { invalidations } = partsOf(cache, "test");
    store.chaos.mode = "throws";
    const fail = (tags: string[]): Promise<void> => expect(cache.invalidateTags(tags)).rejects.toThrow();
    await fail(MANY);
    const { changes } = invalidations;
    for (let nth = 0; nth < 10; nth++) await fail([`another ${nth}`]);
    expect(invalidations.changes).toBe(changes);
    source.version = 2;
    await expect(cache.invalidate({ coordinate: "Query.field", args: { id: 7 } })).rejects.toThrow();
    store.chaos.mode = undefined;
    await clock.advance(6_000);
    expect(await read("field")).toBe(2);
  });
});

describe("a target of cache.invalidate", () => {
  const [INVALID, UNKNOWN, UNUSABLE] = ["CACHED_OPTION_INVALID", "CACHED_COORDINATE_UNKNOWN", "CACHED_KEY_UNUSABLE"];
  const field = (more: object) => ({ coordinate: "Query.field", ...more });
  const loader = (more: object) => ({ loader: "Loader", ...more });
  const own = (more: object) => ({ loader: "Own", ...more });
  const mistakes: readonly (readonly [what: string, target: unknown, code: string | undefined, message: string])[] = [
    ["no object", "Query.field", INVALID, "expected an object"],
    ["neither a coordinate nor a loader", {}, INVALID, "`coordinate`: expected the coordinate"],
    ["a coordinate without a value", { coordinate: undefined }, INVALID, "got undefined"],
    ["a loader without a value", { loader: undefined }, INVALID, "`loader`: expected the name"],
    ["both", field({ loader: "Loader" }), INVALID, "got both"],
    ["a loader beside a coordinate, without a value", field({ loader: undefined }), INVALID, "got both"],
    ["an unknown loader", { loader: "Laoder" }, UNKNOWN, "known loaders and functions: Loader, Own, Call"],
    ["the coordinate of a field as a loader", { loader: "Query.field" }, UNKNOWN, "loader"],
    ["an unknown property of a loader", loader({ args: {} }), INVALID, "`args`: unknown"],
    ["an undefined id", loader({ id: undefined }), INVALID, "`id`: expected the id"],
    ["a null id", loader({ id: null }), INVALID, "got null"],
    ["an undefined identity", own({ id: 1, private: undefined }), INVALID, "`private`"],
    ["no identity for a PRIVATE loader", own({ id: 1 }), UNUSABLE, "PRIVATE"],
    ["an identity alone", own({ private: "ann" }), UNUSABLE, "`id`: expected the id"],
    ["an identity for a PUBLIC loader", loader({ id: 1, private: "ann" }), UNUSABLE, "leave"],
    ["an id without a key", loader({ id: () => 1 }), UNUSABLE, "`id`"],
  ];
  it.each(mistakes)("is refused and invalidates nothing: %s", async (_what, target, code, message) => {
    const source = new Source();
    const { cache, read, drain } = source.start(memoryWorld());
    const readAll = async () => [await read("field"), await read("Loader"), await drain()];
    await readAll();
    await expect(cache.invalidate(target as never)).rejects.toMatchObject({
      code,
      message: expect.stringContaining(message) as string,
    });
    await readAll();
    expect(source.loads).toBe(2);
  });
});
