import { gate, settle } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { dataOf, onEachStore, pair, timedWorld, waitForStores } from "../../support/world.js";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) slow: Int @cached(maxAge: 60) }";

onEachStore("single flight", (world) => {
  it("loads a cold key once for four processes with fifty requests each", async () => {
    let loads = 0;
    const shared = world();
    const start = () => shared.process(typeDefs, { Query: { top: async () => ++loads } });
    const processes = [...pair(start), ...pair(start)];
    const asked = processes.flatMap(({ ask }) => Array.from({ length: 50 }, () => dataOf(ask("{ top }"))));
    expect(await Promise.all(asked)).toEqual(Array(200).fill({ top: 1 }));
    expect(loads).toBe(1);
    const outcomes = processes.map((process) => process.outcomes());
    expect(outcomes.filter(({ loaded }) => loaded === 1)).toEqual([{ loaded: 1, coalesced: 49 }]);
  });

  it("waits for a load that runs in another process", async () => {
    const { passed, open } = gate();
    let loads = 0;
    const shared = world();
    const resolvers = { Query: { top: () => (loads++, passed.then(() => 7)), slow: () => 8 } };
    const [first, second] = pair(() => shared.process(typeDefs, resolvers));
    const one = dataOf(first.ask("{ top }"));
    while (loads === 0) await settle();
    const two = dataOf(second.ask("{ top }"));
    // Both reads share one tick and batch, so once this one returns, the other knows that it has to wait.
    expect(await dataOf(second.ask("{ slow }"))).toEqual({ slow: 8 });
    open();
    expect(await Promise.all([one, two])).toEqual([{ top: 7 }, { top: 7 }]);
    expect([loads, second.outcomes()]).toEqual([1, { coalesced: 1, loaded: 1 }]);
  });

  it("settles a hit of a request before a pending load of the same request", async () => {
    const { passed, open } = gate();
    const { ask, events } = world().process(
      "type Query { page: Page @cached(maxAge: 60) } type Page { id: ID! warm: Int @cached(maxAge: 60) cold: Int @cached(maxAge: 60) }",
      { Query: { page: () => ({ id: 1 }) }, Page: { warm: () => 1, cold: () => passed.then(() => 2) } },
    );
    await ask("{ page { warm } }");
    await waitForStores({ events }, 2);
    const { length } = events;
    const both = ask("{ page { cold warm } }");
    const has = (name: string, coordinate: string): boolean =>
      events
        .slice(length)
        .some((event) => event.name === name && "coordinate" in event && event.coordinate === coordinate);
    while (!has("entry.served", "Page.warm")) await settle();
    expect(has("load.finished", "Page.cold")).toBe(false);
    open();
    expect(await dataOf(both)).toEqual({ page: { cold: 2, warm: 1 } });
  });
});

it("misses of one key in one tick request its lease once, although each of a thousand readers waits for a refresh on terms of its own", async () => {
  const { clock, chaos, bare } = timedWorld();
  const { cache } = bare();
  const loads: number[] = [];
  const numbers = cache.loader({
    name: "Number",
    maxAge: 1,
    staleWhileRevalidate: 100,
    refresh: "FOREGROUND",
    batch: async (ids: readonly number[]) => (loads.push(...ids), ids.map((id) => id + loads.length)),
  });
  await numbers({}).load(1);
  await cache.settled();
  await clock.advance(2_000);
  chaos.calls.clear();
  const values = await Promise.all(Array.from({ length: 1_000 }, () => numbers({}).load(1)));
  await cache.settled();
  expect([chaos.calls.get("acquire"), loads]).toEqual([1, [1, 1]]);
  // The one that runs the load has the new value, and the others the stale one.
  expect([2, 3].map((value) => values.filter((one) => one === value).length)).toEqual([999, 1]);
});
