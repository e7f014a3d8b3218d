import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, type Process, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    known(id: ID!): Int @cached(maxAge: 600, tags: ["Movie:{$args.id}"])
    derived(id: ID!): Movie @cached(maxAge: 600, tags: ["Movie:{$result.id}"])
    many(count: Int!): [Movie!] @cached(maxAge: 600, tags: ["Movie:{$result[].id}"])
  }
  type Movie { id: ID! version: Int }
`;

const LEASE_MS = 3_000;

/** Processes with clocks of their own on one store, and a source whose loads a test holds one by one. */
function createFleet(make: (store: Store) => Store = (store) => store, options: object = {}) {
  const clock = new FakeClock();
  const store = chaosStore(make(memoryStore({ clock })));
  const world = memoryWorld(() => store);
  const source = { version: 1, loads: 0, holds: [] as Promise<void>[] };
  const load = async <T>(toResult: (version: number) => T): Promise<T> => {
    const { version } = source;
    const hold = source.holds.shift();
    source.loads++;
    await hold;
    return toResult(version);
  };
  const resolvers = {
    Query: {
      known: () => load((version) => version),
      derived: (_: unknown, { id }: { id: string }) => load((version) => ({ id, version })),
      many: (_: unknown, { count }: { count: number }) =>
        load((version) => Array.from({ length: count }, (_, id) => ({ id: String(id), version }))),
    },
  };
  const start = (ownClock: FakeClock = clock) =>
    world.process(typeDefs, resolvers, { testing: { clock: ownClock }, ...options });
  /** Lets the next load wait for the returned gate. */
  const hold = () => {
    const held = gate();
    source.holds.push(held.passed);
    return held;
  };
  return { clock, store, source, start, hold };
}

const KINDS = [
  ["known before its load", "{ known(id: 7) }", (version: number) => ({ known: version })],
  ["derived from its result", "{ derived(id: 7) { version } }", (version: number) => ({ derived: { version } })],
] as const;

describe.each(KINDS)("a value with a tag that is %s", (kind, query, versioned) => {
  it("is not served after an invalidation during its load, although its process does not know of the invalidation and stores it", async () => {
    const { source, start, hold } = createFleet();
    const [loading, invalidating, third] = [start(), start(), start()];
    const held = hold();
    const earlier = dataOf(loading.ask(query));
    while (source.loads === 0) await settle();
    source.version = 2;
    await invalidating.cache.invalidateTags(["Movie:7"]);
    held.open();
    expect(await earlier).toEqual(versioned(1));
    await waitForStores(loading);
    for (const process of [third, loading, invalidating])
      expect(await dataOf(process.ask(query))).toEqual(versioned(2));
    expect(source.loads).toBe(2);
  });

  it("is not given to a reader of any process that joins its load after an invalidation", async () => {
    const { clock, source, start, hold } = createFleet();
    const [loading, invalidating, third] = [start(), start(), start()];
    const held = hold();
    const earlier = dataOf(loading.ask(query));
    while (source.loads === 0) await settle();
    source.version = 2;
    await invalidating.cache.invalidateTags(["Movie:7"]);
    const later = [loading, invalidating, third].map((process) => dataOf(process.ask(query)));
    await settle();
    held.open();
    await settle();
    await clock.advance(500);
    expect(await earlier).toEqual(versioned(1));
    expect(await Promise.all(later)).toEqual([versioned(2), versioned(2), versioned(2)]);
    expect(source.loads).toBe(2);
  });

  it("keeps the position of the first of two loads when its lease is taken over", async () => {
    const { clock, source, start, hold } = createFleet();
    const stopped = new FakeClock();
    const [first, second, third] = [start(stopped), start(), start()];
    const holds = [hold(), hold()] as const;
    const ofFirst = dataOf(first.ask(query));
    while (source.loads === 0) await settle();
    source.version = 2;
    await third.cache.invalidateTags(["Movie:7"]);
    // The first process does not renew its lease.
    await clock.advance(LEASE_MS + 1);
    const ofSecond = dataOf(second.ask(query));
    while (source.loads === 1) await settle();
    holds[0].open();
    expect(await ofFirst).toEqual(versioned(1));
    await waitForStores(first);
    const ofThird = dataOf(third.ask(query));
    await settle();
    holds[1].open();
    await clock.advance(500);
    expect(await ofSecond).toEqual(versioned(2));
    expect(await ofThird).toEqual(versioned(2));
    expect(await dataOf(first.ask(query))).toEqual(versioned(2));
  });

  it("is not served if it was read before a write whose process dies after its commit", async () => {
    const { clock, source, start, hold } = createFleet();
    const [loading, writing, third] = [start(), start(new FakeClock()), start()];
    const held = hold();
    const earlier = dataOf(loading.ask(query));
    while (source.loads === 0) await settle();
    const committed = gate();
    void writing.cache.mutate({ tags: ["Movie:7"] }, async () => {
      // A reader who knows the tag does not wait for the load that has begun before.
      if (kind === "known before its load") expect(await dataOf(third.ask(query))).toEqual(versioned(1));
      source.version = 2;
      committed.open();
      await new Promise(() => undefined);
    });
    await committed.passed;
    held.open();
    expect(await earlier).toEqual(versioned(1));
    for (const process of [third, loading]) expect(await dataOf(process.ask(query))).toEqual(versioned(2));
    await clock.advance(3_000);
    for (const process of [loading, third]) expect(await dataOf(process.ask(query))).toEqual(versioned(2));
    await waitForStores(loading);
    const { loads } = source;
    expect(await dataOf(third.ask(query))).toEqual(versioned(2));
    expect(source.loads).toBe(loads);
  });

  it("is loaded while the store does not confirm its invalidation, and all others are served", async () => {
    const { clock, source, start, store } = createFleet();
    const process = start();
    await process.ask(query);
    await process.ask("{ known(id: 8) }");
    await waitForStores(process, 2);
    const { appendClock } = store;
    store.appendClock = () => Promise.reject(new Error("full"));
    source.version = 2;
    await expect(process.cache.invalidateTags(["Movie:7"])).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    for (let nth = 0; nth < 2; nth++) expect(await dataOf(process.ask(query))).toEqual(versioned(2));
    expect(await dataOf(process.ask("{ known(id: 8) }"))).toEqual({ known: 1 });
    expect(source.loads).toBe(4);
    store.appendClock = appendClock;
    await clock.advance(1_000);
    await process.ask(query);
    await waitForStores(process, 3);
    expect(await dataOf(process.ask(query))).toEqual(versioned(2));
    expect(source.loads).toBe(5);
  });

  it("is absent once the store has dropped its invalidation from the log, also to a process that has slept", async () => {
    const { source, start } = createFleet();
    const [process, sleeping, third] = [start(), start(), start()];
    for (const each of [process, sleeping]) await each.ask(query);
    await waitForStores(process);
    source.version = 2;
    await third.cache.invalidateTags(["Movie:7"]);
    // More than the memory store's log has room for.
    for (let nth = 0; nth < 14; nth++)
      await third.cache.invalidateTags(Array.from({ length: 10_000 }, (_, id) => `Other${nth}:${id}`));
    await process.ask("{ known(id: 8) }");
    for (const each of [process, sleeping, third]) expect(await dataOf(each.ask(query))).toEqual(versioned(2));
  });
});

describe("any number of tags", () => {
  it("of one value costs one read for a hit, and each of them invalidates it", async () => {
    const { source, start, store } = createFleet();
    const [one, other] = [start(), start()];
    const query = "{ many(count: 20000) { version } }";
    await one.ask(query);
    await waitForStores(one);
    await other.ask("{ known(id: 8) }");
    store.chaos.calls.clear();
    await other.ask(query);
    expect(store.chaos.calls.get("read")).toBe(1);
    expect(source.loads).toBe(2);
    for (const id of [0, 19_999]) {
      const { loads } = source;
      await one.cache.invalidateTags([`Movie:${id}`]);
      await other.ask(query);
      await waitForStores(other);
      expect(source.loads).toBe(loads + 1);
    }
  });

  it("in one call is a few steps of the store, and invalidates exactly those", async () => {
    const { source, start, store } = createFleet();
    const [one, other] = [start(), start()];
    const ask = async ({ ask }: Process, id: number) => dataOf(ask(`{ known(id: ${id}) }`));
    for (const id of [0, 9_999, 10_000]) await ask(one, id);
    await waitForStores(one, 3);
    source.version = 2;
    store.chaos.calls.clear();
    await one.cache.invalidateTags(Array.from({ length: 10_000 }, (_, id) => `Movie:${id}`));
    // 10,000 tags and that of their type: one more than a record has.
    expect(store.chaos.calls.get("appendClock")).toBe(2);
    expect([await ask(other, 0), await ask(other, 9_999), await ask(other, 10_000)]).toEqual([
      { known: 2 },
      { known: 2 },
      { known: 1 },
    ]);
  });
});
