import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { VersionedSource } from "../../support/versioned-source.js";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const typeDefs = (type = "Int") => /* GraphQL */ `
  type Query {
    product(id: ID!, lang: String): ${type} @cached(maxAge: 60)
    mine(id: ID!): Int @cached(maxAge: 60, scope: PRIVATE)
    found(id: ID!): Item @cached(maxAge: 60, key: ["$args", "$selection"])
    other(id: ID!): Int @cached(maxAge: 60)
  }
  type Item { a: Int b: Int }
`;

/** A source whose values are the number of the last write, and that counts its loads. */
class Source extends VersionedSource {
  start(world: World, { type = "Int", ...options }: { type?: string; [option: string]: unknown } = {}): Shop {
    const item = async () => this.load().then((n) => ({ a: n, b: n }));
    const { load } = this;
    const process = world.process(typeDefs(type), { Query: { product: load, mine: load, other: load, found: item } }, {
      identify: (context: { user?: string }) => context.user,
      ...options,
    } as never);
    const batch = async (ids: readonly unknown[]) => Promise.all(ids.map(() => this.load()));
    const loader = process.cache.loader({ name: "Product", batch, maxAge: 60 });
    const own = process.cache.loader({ name: "Own", batch, maxAge: 60, scope: "PRIVATE" });
    return {
      ...process,
      read: (query, user) => dataOf(process.ask(query, { user })),
      load: (id) => loader({}).load(id),
      loadOwn: (id, user) => own({ user }).load(id),
    };
  }
}

interface Shop extends Process {
  read(query: string, user?: string): Promise<unknown>;
  load(id: unknown): Promise<unknown>;
  loadOwn(id: unknown, user: string): Promise<unknown>;
}

onEachStore("cache.invalidate of a whole field", (world) => {
  it("reaches the entries of all arguments, identities, selections and releases, and no other field", async () => {
    const shared = world();
    const source = new Source();
    const [shop, release] = [source.start(shared), source.start(shared, { type: "Float" })];
    const queries = [
      ["{ product(id: 1) }"],
      ['{ product(id: 2, lang: "de") }'],
      ["{ mine(id: 1) }", "ann"],
      ["{ mine(id: 1) }", "bob"],
      ["{ found(id: 1) { a } }"],
      ["{ found(id: 1) { a b } }"],
    ] as const;
    for (const [query, user] of queries) await shop.read(query, user);
    await release.read("{ product(id: 1) }");
    await shop.read("{ other(id: 1) }");
    await waitForStores(shop, 7);
    await waitForStores(release);
    for (const [query, user] of queries) await shop.read(query, user);
    expect(source.loads).toBe(8);
    source.version = 2;
    for (const coordinate of ["Query.product", "Query.mine", "Query.found"])
      await shop.cache.invalidate({ coordinate });
    for (const [query, user] of queries) expect(JSON.stringify(await shop.read(query, user))).not.toContain("1");
    expect(await release.read("{ product(id: 1) }")).toEqual({ product: 2 });
    expect(await shop.read("{ other(id: 1) }")).toEqual({ other: 1 });
    expect(source.loads).toBe(15);
  });

  it("keeps a value from being served whose load began before, although it is stored afterwards", async () => {
    const shared = world();
    const source = new Source();
    const [loading, other] = [source.start(shared), source.start(shared)];
    const held = gate();
    source.hold = held.passed;
    const first = loading.read("{ product(id: 1) }");
    await expect.poll(() => source.loads).toBe(1);
    source.hold = undefined;
    source.version = 2;
    await other.cache.invalidate({ coordinate: "Query.product" });
    expect(await loading.read("{ product(id: 1) }")).toEqual({ product: 2 });
    held.open();
    expect(await first).toEqual({ product: 1 });
    await waitForStores(loading, 2);
    expect([await loading.read("{ product(id: 1) }"), await other.read("{ product(id: 1) }")]).toEqual([
      { product: 2 },
      { product: 2 },
    ]);
  });

  it("invalidates a loader, one entry of it, or the entry of one identity", async () => {
    const shared = world();
    const source = new Source();
    const [one, two] = [source.start(shared), source.start(shared)];
    const readAll = async ({ load, loadOwn }: Shop) => [
      await load(1),
      await load(2),
      await loadOwn(1, "ann"),
      await loadOwn(1, "bob"),
    ];
    expect(await readAll(one)).toEqual([1, 1, 1, 1]);
    await waitForStores(one, 4);
    source.version = 2;
    await two.cache.invalidate({ loader: "Product", id: 1 });
    await two.cache.invalidate({ loader: "Own", id: 1, private: "ann" });
    expect(await readAll(one)).toEqual([2, 1, 2, 1]);
    await waitForStores(one, 6);
    source.version = 3;
    await two.cache.invalidate({ loader: "Product" });
    expect(await readAll(one)).toEqual([3, 3, 2, 1]);
    await waitForStores(one, 8);
    source.version = 4;
    await two.cache.invalidate({ loader: "Own" });
    expect(await readAll(one)).toEqual([3, 3, 4, 4]);
  });

  it("clears everything under the prefix: fields and loaders, and nothing of another prefix", async () => {
    const shared = world();
    const source = new Source();
    const shop = source.start(shared);
    const stranger = source.start(world());
    const read = async ({ load, read }: Shop) => [await read("{ product(id: 1) mine(id: 1) }", "ann"), await load(1)];
    await read(stranger);
    await read(shop);
    await waitForStores(shop, 3);
    await waitForStores(stranger, 3);
    source.version = 2;
    await shop.cache.clear();
    expect(await read(shop)).toEqual([{ product: 2, mine: 2 }, 2]);
    expect(await read(stranger)).toEqual([{ product: 1, mine: 1 }, 1]);
  });
});

describe("cache.invalidate of a whole field", () => {
  it("costs the same number of store operations for one entry and for a thousand", async () => {
    const operations: Record<string, number>[] = [];
    for (const count of [1, 1_000]) {
      const store = chaosStore(memoryStore());
      const source = new Source();
      const shop = source.start(memoryWorld(() => store));
      await Promise.all(Array.from({ length: count }, (_, id) => shop.load(id)));
      await Promise.all(Array.from({ length: count }, (_, id) => shop.read(`{ product(id: ${id}) }`)));
      await waitForStores(shop, 2 * count);
      store.chaos.calls.clear();
      await shop.cache.invalidate({ coordinate: "Query.product" });
      await shop.cache.invalidate({ loader: "Product" });
      await shop.cache.clear();
      await settle();
      operations.push(Object.fromEntries(store.chaos.calls));
    }
    // Each record is read back once: the log may have others that this process does not know.
    expect(operations[0]).toEqual({ appendClock: 3, readClock: 3 });
    expect(operations[1]).toEqual(operations[0]);
  });

  it("is one record of the invalidation clock for each call", async () => {
    const store = chaosStore(memoryStore());
    const shop = new Source().start(memoryWorld(() => store));
    await shop.read("{ product(id: 1) other(id: 1) }");
    await waitForStores(shop, 2);
    store.chaos.calls.clear();
    await Promise.all(Array.from({ length: 50 }, () => shop.cache.invalidate({ coordinate: "Query.product" })));
    expect(store.chaos.calls.get("appendClock")).toBe(50);
  });

  it("is repeated until the store confirms it, and until then only this field is read without the store", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const source = new Source();
    const shared = memoryWorld(() => store);
    const [shop, other] = [source.start(shared, { testing: { clock } }), source.start(shared, { testing: { clock } })];
    const query = "{ product(id: 1) other(id: 1) }";
    await shop.read(query);
    await settle();
    source.version = 2;
    store.chaos.mode = "throws";
    const message = { code: "CACHED_STORE_UNAVAILABLE" };
    await expect(shop.cache.invalidate({ coordinate: "Query.product" })).rejects.toMatchObject(message);
    expect(shop.events.filter(({ name }) => name === "store.failed")).not.toEqual([]);
    store.chaos.mode = undefined;
    expect(await shop.read(query)).toEqual({ product: 2, other: 1 });
    expect(shop.outcomes()).toEqual({ loaded: 2, hit: 1, "bypassed(STORE_UNAVAILABLE)": 1 });
    await clock.advance(300);
    expect(await other.read(query)).toEqual({ product: 2, other: 1 });
    await settle();
    expect(await shop.read(query)).toEqual({ product: 2, other: 1 });
    expect(shop.outcomes()).toMatchObject({ hit: 3, "bypassed(STORE_UNAVAILABLE)": 1 });
  });

  it("is attempted once more while the cache closes", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const source = new Source();
    const shared = memoryWorld(() => store);
    const [shop, other] = [source.start(shared, { testing: { clock } }), source.start(shared, { testing: { clock } })];
    await shop.read("{ product(id: 1) }");
    await settle();
    source.version = 2;
    store.chaos.mode = "throws";
    await expect(shop.cache.invalidate({ coordinate: "Query.product" })).rejects.toThrow();
    await expect(shop.cache.clear()).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    store.chaos.mode = undefined;
    await shop.cache.close();
    expect(await other.read("{ product(id: 1) }")).toEqual({ product: 2 });
  });

  it("stores nothing of the field for replicaLagMs, and everything of others", async () => {
    const clock = new FakeClock();
    const source = new Source();
    const options = { testing: { clock }, invalidation: { replicaLagMs: 500 } };
    const shop = source.start(
      memoryWorld(() => memoryStore({ clock })),
      options,
    );
    await shop.cache.invalidate({ coordinate: "Query.product" });
    // What a replica returns that lags behind the write.
    expect(await shop.read("{ product(id: 1) other(id: 1) }")).toEqual({ product: 1, other: 1 });
    await settle();
    source.version = 2;
    await clock.advance(499);
    expect(await shop.read("{ product(id: 1) other(id: 1) }")).toEqual({ product: 2, other: 1 });
    await settle();
    source.version = 3;
    await clock.advance(1);
    expect(await shop.read("{ product(id: 1) }")).toEqual({ product: 3 });
    await settle();
    source.version = 4;
    expect(await shop.read("{ product(id: 1) }")).toEqual({ product: 3 });
  });
});

describe("a target of cache.invalidate", () => {
  const mistakes: Readonly<Record<string, readonly [target: unknown, code: string, message: string]>> = {
    "no object": ["Query.product", "CACHED_OPTION_INVALID", "expected an object"],
    "neither a coordinate nor a loader": [{}, "CACHED_OPTION_INVALID", "`coordinate`: expected the coordinate"],
    "a coordinate without a value": [{ coordinate: undefined }, "CACHED_OPTION_INVALID", "got undefined"],
    "a loader without a value": [{ loader: undefined }, "CACHED_OPTION_INVALID", "`loader`: expected the name"],
    both: [{ coordinate: "Query.product", loader: "Product" }, "CACHED_OPTION_INVALID", "got both"],
    "a loader beside a coordinate, without a value": [
      { coordinate: "Query.product", loader: undefined },
      "CACHED_OPTION_INVALID",
      "got both",
    ],
    "an unknown coordinate": [{ coordinate: "Query.prodcut" }, "CACHED_COORDINATE_UNKNOWN", "Query.product"],
    "an unknown loader": [
      { loader: "Prodcut" },
      "CACHED_COORDINATE_UNKNOWN",
      "known loaders and functions: Product, Own",
    ],
    "the coordinate of a field as a loader": [{ loader: "Query.product" }, "CACHED_COORDINATE_UNKNOWN", "loader"],
    "an unknown property of a loader": [{ loader: "Product", args: {} }, "CACHED_OPTION_INVALID", "`args`: unknown"],
    "an undefined id": [{ loader: "Product", id: undefined }, "CACHED_OPTION_INVALID", "`id`: expected the id"],
    "a null id": [{ loader: "Product", id: null }, "CACHED_OPTION_INVALID", "got null"],
    "an undefined identity": [{ loader: "Own", id: 1, private: undefined }, "CACHED_OPTION_INVALID", "`private`"],
    "no identity for a PRIVATE loader": [{ loader: "Own", id: 1 }, "CACHED_KEY_UNUSABLE", "PRIVATE"],
    "an identity alone": [{ loader: "Own", private: "ann" }, "CACHED_KEY_UNUSABLE", "`id`: expected the id"],
    "an identity for a PUBLIC loader": [{ loader: "Product", id: 1, private: "ann" }, "CACHED_KEY_UNUSABLE", "leave"],
    "an id without a key": [{ loader: "Product", id: () => 1 }, "CACHED_KEY_UNUSABLE", "`id`"],
    "undefined arguments": [{ coordinate: "Query.product", args: undefined }, "CACHED_OPTION_INVALID", "`args`"],
    "no required argument": [{ coordinate: "Query.product", args: {} }, "CACHED_KEY_UNUSABLE", "argument `id`"],
  };
  for (const [what, [target, code, message]] of Object.entries(mistakes))
    it(`is refused with ${code} and invalidates nothing: ${what}`, async () => {
      const source = new Source();
      const shop = source.start(memoryWorld());
      await shop.read("{ product(id: 1) }");
      await shop.load(1);
      await waitForStores(shop, 2);
      await expect(shop.cache.invalidate(target as never)).rejects.toMatchObject({
        code,
        message: expect.stringContaining(message) as string,
      });
      await shop.read("{ product(id: 1) }");
      await shop.load(1);
      expect(source.loads).toBe(2);
    });

  it("has to name one entry in cache.mutate, which protects entries by their names", async () => {
    const { cache } = new Source().start(memoryWorld());
    for (const entry of [{ coordinate: "Query.product" }, { loader: "Product" }])
      await expect(cache.mutate({ entries: [entry] }, () => 1)).rejects.toMatchObject({ code: "CACHED_KEY_UNUSABLE" });
    expect(await cache.mutate({ entries: [{ loader: "Product", id: 1 }] }, () => 1)).toBe(1);
  });
});
