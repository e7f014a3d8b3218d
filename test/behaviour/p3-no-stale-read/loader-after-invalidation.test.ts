import { gate } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, type Process, type World, waitForStores } from "../../support/world.js";

/** A process with two loaders: `Page` has no tags but those that its loads set. */
function start(world: World, source = { version: 1, asked: [] as (readonly number[])[] }) {
  const process = world.process(
    'type Query { top: Int } type Mutation { rate(id: ID!): Int @invalidates(tags: ["Product:{$args.id}"]) }',
    { Mutation: { rate: () => ++source.version } },
  );
  const { cache } = process;
  const products = cache.loader({
    name: "Product",
    batch: async (ids: readonly number[]) => (source.asked.push(ids), ids.map(() => source.version)),
    maxAge: 60,
    tags: (id) => [`Product:${id}`],
  });
  const pages = cache.loader({
    name: "Page",
    batch: async (ids: readonly number[], _context: object, { results }) => {
      for (const [index, id] of ids.entries()) results[index]?.set({ tags: [`Page:${id}`] });
      return ids.map(() => source.version);
    },
    maxAge: 60,
  });
  return { ...process, source, products, pages };
}

describe("a loader in the request that invalidates", () => {
  it("reads again what an @invalidates mutation concerns, and only that", async () => {
    const { ask, source, products } = start(memoryWorld());
    const context = {};
    expect(await products(context).loadMany([7, 8])).toEqual([1, 1]);
    await dataOf(ask("mutation { rate(id: 7) }", context));
    expect(await products(context).loadMany([7, 8])).toEqual([2, 1]);
    expect(await products(context).load(7)).toBe(2);
    expect(source.asked).toEqual([[7, 8], [7]]);
  });

  it.each<[string, (process: Process) => Promise<unknown>]>([
    ["by tag", ({ cache }) => cache.invalidateTags(["Product:7"])],
    ["by id", ({ cache }) => cache.invalidate({ loader: "Product", id: 7 })],
    ["as a whole", ({ cache }) => cache.invalidate({ loader: "Product" })],
    ["with everything", ({ cache }) => cache.clear()],
    ["by a write", ({ cache }) => cache.mutate({ tags: ["Product:7"] }, () => undefined)],
  ])("reads again what was invalidated %s", async (_, invalidate) => {
    const process = start(memoryWorld());
    const values = process.products({});
    expect(await values.load(7)).toBe(1);
    process.source.version = 2;
    await invalidate(process);
    expect(await values.load(7)).toBe(2);
  });

  it("reads again what was invalidated softly, once it is refreshed", async () => {
    const { cache, source, products } = start(memoryWorld());
    const values = products({});
    expect(await values.load(7)).toBe(1);
    source.version = 2;
    await cache.invalidateTags(["Product:7"], { soft: true });
    await expect.poll(() => products({}).load(7)).toBe(2);
    expect(await values.load(7)).toBe(2);
  });

  it("reads again what was read while the invalidation was under way", async () => {
    const inner = memoryStore();
    const held = gate();
    const append = inner.appendClock.bind(inner);
    const appendClock: Store["appendClock"] = async (records) => {
      if (records.length > 0) await held.passed;
      return append(records);
    };
    const { cache, events, source, products } = start(memoryWorld(() => Object.assign(inner, { appendClock })));
    const context = {};
    await products({}).load(7);
    await waitForStores({ events });
    source.version = 2;
    const invalidated = cache.invalidateTags(["Product:7"]);
    // Its own process uses nothing older from then on, although the store has not confirmed.
    expect(await products(context).load(7)).toBe(2);
    source.version = 3;
    held.open();
    await invalidated;
    expect(await products(context).load(7)).toBe(3);
  });

  it.each([
    ["has", false],
    ["in another process has", true],
  ])("reads again what was invalidated by a tag that its load %s set", async (_, isOther) => {
    const world = memoryWorld();
    const reading = start(world);
    const loading = isOther ? start(world, reading.source) : reading;
    await loading.pages({}).load(7);
    await waitForStores(loading);
    const values = reading.pages({});
    expect(await values.load(7)).toBe(1);
    reading.source.version = 2;
    await reading.cache.invalidateTags(["Page:7"]);
    expect(await values.load(7)).toBe(2);
  });

  it("keeps what the request has primed after the invalidation", async () => {
    const { cache, products } = start(memoryWorld());
    const values = products({});
    expect(await values.load(7)).toBe(1);
    await cache.invalidateTags(["Product:7"]);
    expect(await values.prime(7, 100).load(7)).toBe(100);
  });
});
