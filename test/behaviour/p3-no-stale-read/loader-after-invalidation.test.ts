import { gate } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, type Process, waitForStores } from "../../support/world.js";

describe("a loader in the request that invalidates", () => {
  const start = (store = memoryStore()) => {
    const source = { version: 1, asked: [] as (readonly number[])[] };
    const process = memoryWorld(() => store).process(
      'type Query { top: Int } type Mutation { rate(id: ID!): Int @invalidates(tags: ["Product:{$args.id}"]) }',
      { Mutation: { rate: () => ++source.version } },
    );
    const products = process.cache.loader({
      name: "Product",
      batch: async (ids: readonly number[]) => {
        source.asked.push(ids);
        return ids.map(() => source.version);
      },
      maxAge: 60,
      tags: (id) => [`Product:${id}`],
    });
    return { ...process, source, products };
  };

  it("reads again what an @invalidates mutation concerns, and only that", async () => {
    const { ask, source, products } = start();
    const context = {};
    expect(await products(context).loadMany([7, 8])).toEqual([1, 1]);
    await dataOf(ask("mutation { rate(id: 7) }", context));
    expect(await products(context).loadMany([7, 8])).toEqual([2, 1]);
    expect(source.asked).toEqual([[7, 8], [7]]);
    expect(await products(context).load(7)).toBe(2);
    expect(source.asked).toHaveLength(2);
  });

  it("reads again what was invalidated by tag, by id, as a whole, or with everything, hard or soft", async () => {
    const { cache, events, source, products } = start();
    const context = {};
    const invalidations = [
      () => cache.invalidateTags(["Product:7"]),
      () => cache.invalidate({ loader: "Product", id: 7 }),
      () => cache.invalidate({ loader: "Product" }),
      () => cache.clear(),
      () => cache.mutate({ tags: ["Product:7"] }, () => undefined),
    ];
    expect(await products(context).load(7)).toBe(1);
    for (const invalidate of invalidations) {
      source.version++;
      await invalidate();
      expect(await products(context).load(7)).toBe(source.version);
    }
    await waitForStores({ events }, invalidations.length + 1);
    source.version++;
    await cache.invalidateTags(["Product:7"], { soft: true });
    await expect.poll(() => products({}).load(7)).toBe(source.version);
    expect(await products(context).load(7)).toBe(source.version);
  });

  it("reads again what was read while the invalidation was under way", async () => {
    const inner = memoryStore();
    const held = gate();
    const store = new Proxy(inner, {
      get(target, property) {
        const value: unknown = Reflect.get(target, property, target);
        if (property === "appendClock")
          return async (records: readonly Buffer[]) => {
            if (records.length > 0) await held.passed;
            return inner.appendClock(records);
          };
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const { cache, events, source, products } = start(store);
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

  it("reads again what was invalidated by a tag that its load has set", async () => {
    const { cache } = start();
    let version = 1;
    const pages = cache.loader({
      name: "Page",
      batch: async (ids: readonly number[], _context: object, { results }) => {
        for (const [index, id] of ids.entries()) results[index]?.set({ tags: [`Page:${id}`] });
        return ids.map(() => version);
      },
      maxAge: 60,
    });
    const context = {};
    expect(await pages(context).load(7)).toBe(1);
    version = 2;
    await cache.invalidateTags(["Page:7"]);
    expect(await pages(context).load(7)).toBe(2);
  });

  it("reads again what was invalidated by a tag that its load in another process has set", async () => {
    const world = memoryWorld();
    const [loading, reading] = [0, 1].map(() => world.process("type Query { top: Int }", {})) as [Process, Process];
    let version = 1;
    const pagesOf = ({ cache }: Process) =>
      cache.loader({
        name: "Page",
        batch: async (ids: readonly number[], _context: object, { results }) => {
          for (const [index, id] of ids.entries()) results[index]?.set({ tags: [`Page:${id}`] });
          return ids.map(() => version);
        },
        maxAge: 60,
      });
    const [ofLoading, ofReading] = [pagesOf(loading), pagesOf(reading)];
    await ofLoading({}).load(7);
    await waitForStores(loading);
    const context = {};
    expect(await ofReading(context).load(7)).toBe(1);
    version = 2;
    await reading.cache.invalidateTags(["Page:7"]);
    expect(await ofReading(context).load(7)).toBe(2);
  });

  it("keeps what the request has primed after the invalidation", async () => {
    const { cache, products } = start();
    const context = {};
    expect(await products(context).load(7)).toBe(1);
    await cache.invalidateTags(["Product:7"]);
    products(context).prime(7, 100);
    expect(await products(context).load(7)).toBe(100);
  });
});
