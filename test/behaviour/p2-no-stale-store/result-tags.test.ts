import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import type { ReadReport } from "../../../src/core/tier/request/request.js";
import { overrideStore } from "../../support/override-store.js";
import { fleet, type Shop, Source } from "../../support/shop.js";
import { dataOf, memoryWorld, onEachStore, pair, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movies: [Movie!] @cached(maxAge: 600, tags: ["Movie:{$result[].id}"])
    both(id: ID!): Movie @cached(maxAge: 600, tags: ["Movie:{$args.id}", "Movie:{$result.id}", "Studio:{$result.studio}"])
  }
  type Movie { id: ID! version: Int studio: String }
`;

/** Movies with ids that a test sets. */
function moviesSource(count = 2) {
  const state = { ids: Array.from({ length: count }, (_, id) => id + 1), version: 1, loads: 0 };
  const toMovies = () => state.ids.map((id) => ({ id: String(id), version: state.version }));
  const movies = () => (state.loads++, toMovies());
  return { state, result: () => ({ movies: toMovies() }), resolvers: { Query: { movies } } };
}
const QUERY = "{ movies { id version } }";

it("20,000 tags of one value cost one read for a hit, also in a process that has not read it, and each of them invalidates it", async () => {
  const { store, world } = fleet(0);
  const { state, resolvers } = moviesSource(20_000);
  const [one, other] = pair(() => world.process(typeDefs, resolvers));
  await one.ask(QUERY);
  await waitForStores(one);
  // It learns of the head of the clock.
  await other.cache.invalidateTags(["Other:1"]);
  for (const { ask } of [other, one]) {
    store.chaos.calls.clear();
    await ask(QUERY);
    expect([store.chaos.calls.get("read"), state.loads]).toEqual([1, 1]);
  }
  for (const [nth, id] of [1, 20_000].entries()) {
    await one.cache.invalidateTags([`Movie:${id}`]);
    await other.ask(QUERY);
    await waitForStores(other, nth + 1);
    expect(state.loads).toBe(nth + 2);
  }
});

const STATES = ["fresh", "kept for when its source fails"];
it.each(["found", "said", "listed"].flatMap((what) => STATES.map((state) => [what, state])))(
  "a value that was invalidated by its tag is loaded once for each back-off while its source fails: %s, %s",
  async (what, state) => {
    const { clock, source, world } = fleet(0);
    const shops = pair(() => source.start(world, { testing: { clock }, defaults: { staleIfError: 60 } }));
    await shops[0].read(what);
    await shops[0].drain();
    if (state !== "fresh") await clock.advance(601_000);
    await shops[0].cache.invalidateTags(["Item:7"]);
    source.error = new Error("the source is away");
    for (const loads of [2, 3]) {
      for (const { ask, drain } of [...shops, ...shops]) {
        const { errors } = await ask(`{ ${what}(id: 7) { version } }`);
        expect(errors?.[0]?.message).toBe("the source is away");
        await drain();
      }
      expect(source.loads).toBe(loads);
      await clock.advance(1_000);
    }
  },
);

it("a value that was invalidated by its tag while others waited for it is loaded once for each back-off as well", async () => {
  const { source, shops } = fleet(2);
  const [one, other] = shops as [Shop, Shop];
  const errorOf = async ({ ask, drain }: Shop) => {
    const { errors } = await ask("{ found(id: 7) { version } }");
    await drain();
    return errors?.[0]?.message;
  };
  const [first, second] = [source.hold(), source.hold()];
  const read = one.read("found");
  await settle();
  const waiting = errorOf(other);
  await settle();
  // The other process knows of it, and the one that loads does not.
  await other.cache.invalidateTags(["Item:7"]);
  first.open();
  await read;
  while (source.loads < 2) await settle();
  source.error = new Error("the source is away");
  second.open();
  expect([await waiting, await errorOf(one), await errorOf(other)]).toEqual(Array(3).fill("the source is away"));
  expect(source.loads).toBe(2);
});

it("each value of a tick is stored unless one of its own tags was invalidated during its load", async () => {
  const { source, shops } = fleet(1);
  const [{ ask, cache, events }] = shops as [Shop];
  const ids = Array.from({ length: 50 }, (_, id) => id);
  const holds = ids.map(() => source.hold());
  const asking = ask(`{ ${ids.map((id) => `m${id}: found(id: ${id}) { id }`).join(" ")} }`);
  while (source.loads < ids.length) await settle();
  await cache.invalidateTags(["Item:7"]);
  for (const held of holds) held.open();
  await dataOf(asking);
  await settle();
  const stored = events.flatMap((event) => (event.name === "write.finished" ? [event.isStored] : []));
  expect([stored.length, stored.filter((isStored) => isStored).length]).toEqual([50, 49]);
});

onEachStore("tags of a result that a process remembers", (world) => {
  it("are not taken for the tags of a value that was stored since and has others", async () => {
    const shared = world();
    const { state, result, resolvers } = moviesSource();
    // The test counts loads, so a busy machine must not make the store look unavailable.
    const options = { storage: { storeTimeoutMs: 5_000 } };
    const [reader, writer] = pair(() => shared.process(typeDefs, resolvers, options));
    await reader.ask(QUERY);
    await waitForStores(reader);
    await reader.ask(QUERY);
    // The writer replaces the value; its tags Movie:3 and Movie:4 are unknown to the reader.
    for (const [nth, id] of [3, 4].entries()) {
      state.ids = [1, id];
      await writer.cache.invalidate({ coordinate: "Query.movies", args: {} });
      await writer.ask(QUERY);
      await waitForStores(writer, nth + 1);
      if (id === 3) expect([await dataOf(reader.ask(QUERY)), state.loads]).toEqual([result(), 2]);
    }
    state.version = 2;
    await writer.cache.invalidateTags(["Movie:4"]);
    expect([await dataOf(reader.ask(QUERY)), state.loads]).toEqual([result(), 4]);
  });
});

it("tags known before the load and those of its result are reported to the observer of a request, when it is loaded, shared and read", async () => {
  const both = () => ({ id: "7", studio: "Ghibli" });
  const { cache, events, ask } = memoryWorld().process(typeDefs, { Query: { both } });
  const { keys, requestStates } = partsOf(cache, "test");
  const reported: [string, readonly number[] | undefined][] = [];
  const read = () => {
    const context = {};
    const onRead = (_: string, report: ReadReport): unknown =>
      reported.push([report.outcome, report.outcome === "bypassed" ? undefined : report.subjects]);
    requestStates.observe(context, { onRead });
    return ask('{ both(id: "7") { id } }', context);
  };
  await Promise.all([read(), read()]);
  await waitForStores({ events });
  await read();
  const tags = keys.tags(["Movie:7", "Studio:Ghibli"]);
  expect(reported).toEqual(["loaded", "coalesced", "hit"].map((outcome) => [outcome, tags]));
});

it.each([
  ["", 0],
  [", although earlier reads wait for it", 2],
])(
  "does not give a later read a load whose tags were checked before their invalidation, while it is stored%s",
  async (_, count) => {
    const world = memoryWorld();
    const storing = gate();
    let checked = 0;
    // The value is stored only after the test has invalidated its tag.
    const inner = world.store();
    const store = overrideStore(inner, {
      storeValues: async (requests) => (checked++, await storing.passed, inner.storeValues(requests)),
    });
    const source = new Source();
    const { cache, read } = source.start(world, { store, storage: { storeTimeoutMs: 60_000 } });
    const loading = source.hold();
    const first = read("listed");
    const earlier: Promise<unknown>[] = [];
    for (let nth = 0; nth < count; nth++) {
      await settle();
      earlier.push(read("listed"));
    }
    await settle();
    loading.open();
    expect(await first).toBe(1);
    while (checked === 0) await settle();
    source.version = 2;
    await cache.invalidateTags(["Item:7"]);
    const later = read("listed");
    for (let turn = 0; turn < 10; turn++) await settle();
    storing.open();
    expect(await later).toBe(2);
    await Promise.all(earlier);
  },
);

describe("a request of another process that waits for the load of an invalidated key", () => {
  it.each([
    ["at once, since its entry is removed", true],
    ["with its next poll if its entry cannot be removed, and the invalidation is in force nevertheless", false],
  ])("goes on %s", async (_when, isRemovable) => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    if (!isRemovable) store.remove = () => Promise.reject(new Error("read-only"));
    const world = memoryWorld(() => store);
    const source = new Source();
    const [first, second] = pair(() => source.start(world, { testing: { clock } }));
    const held = source.hold();
    const loading = first.read("field");
    await settle();
    const waiting = second.read("field");
    await settle();
    expect(source.loads).toBe(1);
    source.version = 2;
    await first.cache.invalidate({ coordinate: "Query.field", args: { id: 7 } });
    await settle();
    expect(source.loads).toBe(isRemovable ? 2 : 1);
    await clock.advance(500);
    expect([await waiting, source.loads]).toEqual([2, 2]);
    held.open();
    expect(await loading).toBe(1);
    await settle();
    expect([await first.read("field"), source.loads]).toEqual([2, 2]);
  });
});

it.each([
  ["within the millisecond of its load", 0],
  ["after a failover to a server whose clock is behind", 5_000],
])("processes that have ruled out one value share the load of the next one %s", async (_when, behindMs) => {
  const clock = new FakeClock();
  let setBackMs = 0;
  const world = memoryWorld(() =>
    memoryStore({ clock: Object.assign(Object.create(clock), { now: () => clock.now() - setBackMs }) }),
  );
  const source = new Source();
  const shops = [0, 1, 2].map(() => source.start(world, { testing: { clock } })) as [Shop, Shop, Shop];
  await shops[0].ask("{ found(id: 7) { id } }");
  await settle();
  await shops[0].cache.invalidateTags(["Item:7"]);
  setBackMs = behindMs;
  const held = source.hold();
  const asking = Promise.all(shops.map(({ ask }) => dataOf(ask("{ found(id: 7) { id } }"))));
  await settle();
  held.open();
  await clock.advance(1_000);
  await asking;
  expect(source.loads).toBe(2);
});

onEachStore("keys with different numbers of tags, read by several requests in one tick", (world) => {
  const ids = Array.from({ length: 40 }, (_, id) => id);
  /** None to three of seven tags, which the keys share. */
  const tagsOf = (id: number): string[] => Array.from({ length: id % 4 }, (_, nth) => `Pool:${(id + 3 * nth) % 7}`);

  it("are loaded again if one of their tags was invalidated, and no others are", async () => {
    const { cache } = world().bare();
    const loaded: number[] = [];
    const batch = async (keys: readonly number[]) => (loaded.push(...keys), keys.map((key) => ({ key })));
    const items = cache.loader({ name: "Item", maxAge: 60, tags: tagsOf, batch });
    const order = [...ids.flatMap((id) => [id, id]), ...ids.toReversed()];
    /** Two requests read each key one after the other, and a third one reads all in reverse order. Returns what was loaded. */
    const readAll = async (): Promise<number[]> => {
      const [one, two, three] = [items({}), items({}), items({})] as const;
      const reads = order.map((id, nth) => (nth >= 80 ? three : nth % 2 === 0 ? one : two).load(id));
      expect(await Promise.all(reads)).toEqual(order.map((key) => ({ key })));
      await cache.settled();
      return loaded.splice(0).toSorted((a, b) => a - b);
    };
    expect(await readAll()).toEqual(ids);
    for (const tag of ["Pool:0", "Pool:3", "Pool:6"]) {
      expect(await readAll()).toEqual([]);
      await cache.invalidateTags([tag]);
      expect(await readAll()).toEqual(ids.filter((id) => tagsOf(id).includes(tag)));
    }
  });
});
