import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore, type Process, type World, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    field(id: ID!): Item @cached(maxAge: 60)
    tagged(id: ID!): Item @cached(maxAge: 60, tags: ["T"])
    found(id: ID!): Item @cached(maxAge: 60, tags: ["R:{$result.kind}"])
    selected(id: ID!): Item @cached(maxAge: 60, key: ["$args", "$selection"])
    waiting(id: ID!): Item @cached(maxAge: 60, refresh: FOREGROUND, tags: ["T", "R:{$result.kind}"])
    forever(id: ID!): Item @cached(maxAge: 60, neverExpires: true, tags: ["T"])
  }
  type Item { kind: String n: Int }
`;

/** A source whose values are the number of the last write. */
class Source {
  version = 1;
  loads = 0;
  hold: Promise<void> | undefined;
  error: Error | undefined;

  readonly load = async (): Promise<{ kind: string; n: number }> => {
    this.loads++;
    const { version } = this;
    await this.hold;
    if (this.error !== undefined) throw this.error;
    return { kind: "k", n: version };
  };

  start(world: World, options: object = {}): Shop {
    const { load } = this;
    const fields = ["field", "tagged", "found", "selected", "waiting", "forever"];
    const process = world.process(typeDefs, { Query: Object.fromEntries(fields.map((name) => [name, load])) }, options);
    const batch = async (ids: readonly unknown[]) => Promise.all(ids.map(() => load()));
    const loader = process.cache.loader({ name: "Loader", batch, maxAge: 60 });
    return {
      ...process,
      read: async (what) => {
        if (what === "Loader") return ((await loader({}).load(1)) as { n: number }).n;
        const data = (await dataOf(process.ask(`{ ${what}(id: 1) { n } }`))) as Record<string, { n: number }>;
        return data[what]?.n;
      },
    };
  }
}

interface Shop extends Process {
  read(what: string): Promise<unknown>;
}

const KINDS: Readonly<Record<string, readonly [what: string, invalidate: (process: Process) => Promise<void>]>> = {
  "a whole field": ["field", ({ cache }) => cache.invalidate({ coordinate: "Query.field" }, { soft: true })],
  "a whole loader": ["Loader", ({ cache }) => cache.invalidate({ loader: "Loader" }, { soft: true })],
  everything: ["field", ({ cache }) => cache.clear({ soft: true })],
  "a tag that is known before the load": ["tagged", ({ cache }) => cache.invalidateTags(["T"], { soft: true })],
  "a tag of the result": ["found", ({ cache }) => cache.invalidateTags(["R:k"], { soft: true })],
  "an entry by selection": [
    "selected",
    ({ cache }) => cache.invalidate({ coordinate: "Query.selected", args: { id: 1 } }, { soft: true }),
  ],
};

onEachStore("a soft invalidation", (world) => {
  for (const [kind, [what, invalidate]] of Object.entries(KINDS)) {
    it(`of ${kind} lets all processes serve the old value while one of them loads it again`, async () => {
      const shared = world();
      const source = new Source();
      const [one, two] = [source.start(shared), source.start(shared)];
      for (let nth = 1; nth <= 2; nth++) {
        expect(await one.read(what)).toBe(nth);
        if (nth === 1) await waitForStores(one);
        expect(await two.read(what)).toBe(nth);
        const held = gate();
        source.hold = held.passed;
        source.version++;
        await invalidate(two);
        // The second process reads before and during the refresh that the first one starts.
        expect([await two.read(what), await one.read(what), await two.read(what)]).toEqual([nth, nth, nth]);
        await expect.poll(() => source.loads).toBe(nth + 1);
        held.open();
        await expect.poll(async () => [await one.read(what), await two.read(what)]).toEqual([nth + 1, nth + 1]);
      }
      expect(source.loads).toBe(3);
    });

    it(`of ${kind} never makes a value fresh whose load began before`, async () => {
      const shared = world();
      const source = new Source();
      const [loading, other] = [source.start(shared), source.start(shared)];
      const held = gate();
      source.hold = held.passed;
      const first = loading.read(what);
      await expect.poll(() => source.loads).toBe(1);
      source.version = 2;
      await invalidate(other);
      source.hold = undefined;
      held.open();
      expect(await first).toBe(1);
      await waitForStores(loading);
      await other.read(what);
      await expect.poll(() => other.read(what)).toBe(2);
      expect(source.loads).toBe(2);
    });
  }

  it("is undone by nothing, and is followed by a hard one as if it had not been", async () => {
    const shared = world();
    const source = new Source();
    const shop = source.start(shared);
    for (const what of ["tagged", "field", "found"]) await shop.read(what);
    await waitForStores(shop, 3);
    await shop.cache.invalidateTags(["T", "R:k"], { soft: true });
    await shop.cache.clear({ soft: true });
    source.version = 2;
    await shop.cache.invalidateTags(["T", "R:k"]);
    await shop.cache.invalidate({ coordinate: "Query.field" });
    for (const what of ["tagged", "field", "found"]) expect(await shop.read(what)).toBe(2);
    await waitForStores(shop, 6);
    for (const what of ["tagged", "field", "found"]) expect(await shop.read(what)).toBe(2);
    expect(source.loads).toBe(6);
  });
});

describe("a soft invalidation", () => {
  const start = (clock = new FakeClock()) => {
    const source = new Source();
    const store = chaosStore(memoryStore({ clock }));
    const shared = memoryWorld(() => store);
    return { clock, source, store, shop: source.start(shared, { testing: { clock } }), shared };
  };

  for (const [kind, [what, invalidate]] of Object.entries(KINDS))
    it(`of ${kind} does not load again for errorBackoffMs after the load has failed`, async () => {
      const { clock, source, shop } = start();
      await shop.read(what);
      await settle();
      await invalidate(shop);
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

  it("lets the caller that wins the lease wait for the new value with refresh: FOREGROUND", async () => {
    for (const tag of ["T", "R:k"]) {
      const { source, shop } = start();
      await shop.read("waiting");
      await settle();
      source.version = 2;
      await shop.cache.invalidateTags([tag], { soft: true });
      expect(await shop.read("waiting")).toBe(2);
      await settle();
      expect([await shop.read("waiting"), source.loads]).toEqual([2, 2]);
    }
  });

  it("refreshes values that never expire", async () => {
    const { source, shop } = start();
    await shop.read("forever");
    await settle();
    source.version = 2;
    await shop.cache.invalidateTags(["T"], { soft: true });
    expect(await shop.read("forever")).toBe(1);
    await settle();
    expect([await shop.read("forever"), source.loads]).toEqual([2, 2]);
  });

  it("does not serve the old value beyond its maxAge", async () => {
    const { clock, source, shop } = start();
    await shop.read("tagged");
    await settle();
    source.version = 2;
    await shop.cache.invalidateTags(["T"], { soft: true });
    await clock.advance(60_000);
    expect(await shop.read("tagged")).toBe(2);
  });

  it("is repeated as a hard one if the store has not confirmed it", async () => {
    for (const [what, invalidate] of Object.values(KINDS)) {
      const { clock, source, store, shop, shared } = start();
      const other = source.start(shared, { testing: { clock } });
      await shop.read(what);
      await settle();
      source.version = 2;
      store.chaos.mode = "throws";
      await expect(invalidate(shop)).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
      store.chaos.mode = undefined;
      await clock.advance(6_000);
      expect([await other.read(what), source.loads]).toEqual([2, 2]);
    }
  });

  it("is refused with other options than soft: true or false", async () => {
    const { shop } = start();
    const { cache } = shop;
    for (const options of [{ soft: "yes" }, { hard: true }, null, true]) {
      const refused = { code: "CACHED_OPTION_INVALID" };
      await expect(cache.invalidate({ coordinate: "Query.field" }, options as never)).rejects.toMatchObject(refused);
      await expect(cache.invalidateTags(["T"], options as never)).rejects.toMatchObject(refused);
      await expect(cache.clear(options as never)).rejects.toMatchObject(refused);
    }
  });
});
