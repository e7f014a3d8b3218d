import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { overrideStore } from "../../support/override-store.js";
import { dataOf, type Process, timedWorld, waitForStores } from "../../support/world.js";

const typeDefs = `
  type Query { price: Int @cached(maxAge: 60, tags: ["Price"]) }
  type Mutation { set: Int @invalidates(tags: ["Price"]) }
`;

/** Two processes that have cached a price. `go` lets the change of the price end, or the command that invalidates it. */
async function startShop({ holdInvalidations = true } = {}) {
  const world = timedWorld();
  const go = gate();
  const source = { price: 1 };
  const change = (): number => {
    source.price = 2;
    return source.price;
  };
  const set = () => go.passed.then(change);
  const inner = world.store();
  const held = overrideStore(inner, {
    appendClock: async (records) => {
      if (holdInvalidations && records.length > 0) await go.passed;
      return inner.appendClock(records);
    },
  });
  const resolvers = { Query: { price: () => source.price }, Mutation: { set } };
  const closing = world.process(typeDefs, resolvers, { store: held });
  const other = world.process(typeDefs, resolvers);
  const read = async ({ ask }: Process = other): Promise<unknown> => dataOf(ask("{ price }"));
  await read(closing);
  await waitForStores(closing);
  expect(await read()).toEqual({ price: 1 });
  let isClosed = false;
  const close = async (): Promise<void> => {
    await closing.cache.close();
    isClosed = true;
  };
  return { clock: world.clock, go, change, set, closing, other, read, close, isClosed: () => isClosed };
}

type Shop = Awaited<ReturnType<typeof startShop>>;

describe("a cache that is closed while a mutation is under way", () => {
  it.each<[string, (shop: Shop) => Promise<unknown>]>([
    ["an @invalidates mutation", ({ closing }) => closing.ask("mutation { set }")],
    ["a call of cache.invalidateTags", (shop) => (shop.change(), shop.closing.cache.invalidateTags(["Price"]))],
  ])("waits for %s, so that its invalidation is not lost", async (_, change) => {
    const shop = await startShop();
    const changing = change(shop);
    await settle();
    const closed = shop.close();
    await settle();
    expect(shop.isClosed()).toBe(false);
    shop.go.open();
    await Promise.all([changing, closed]);
    expect(await shop.read()).toEqual({ price: 2 });
  });

  it("does not wait for a write in cache.mutate, whose mark in the store keeps the old value from being stored", async () => {
    const { closing, other, set, go, read, close } = await startShop({ holdInvalidations: false });
    const change = closing.cache.mutate({ tags: ["Price"] }, set);
    await settle();
    await close();
    expect(await read()).toEqual({ price: 1 });
    go.open();
    await change;
    expect(await read()).toEqual({ price: 2 });
    expect(other.outcomes().hit).toBe(1);
  });

  it("waits for two seconds at most", async () => {
    const { clock, go, closing, close, isClosed } = await startShop();
    const change = closing.ask("mutation { set }");
    await settle();
    const closed = close();
    await clock.advance(1_999);
    expect(isClosed()).toBe(false);
    await clock.advance(1);
    await closed;
    go.open();
    await change;
  });
});
