import { gate, settle } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { dataOf, onEachStore } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    top: Int @cached(maxAge: 60)
    movie(id: ID!): Movie @cached(maxAge: 60)
    slow: Int @cached(maxAge: 60)
  }
  type Movie {
    id: ID!
  }
`;

onEachStore("single flight", (world) => {
  it("loads a key once for concurrent requests in one process", async () => {
    let loads = 0;
    const { ask, outcomes } = world().process(typeDefs, { Query: { top: () => ++loads } });
    const results = await Promise.all(Array.from({ length: 50 }, () => dataOf(ask("{ top }"))));
    expect(results).toEqual(Array(50).fill({ top: 1 }));
    expect(loads).toBe(1);
    expect(outcomes()).toEqual({ loaded: 1, coalesced: 49 });
  });

  it("waits for a load that runs in another process", async () => {
    const { passed, open } = gate();
    let loads = 0;
    const shared = world();
    const resolvers = {
      Query: {
        top: async () => {
          loads++;
          await passed;
          return 7;
        },
        slow: () => 8,
      },
    };
    const [first, second] = [shared.process(typeDefs, resolvers), shared.process(typeDefs, resolvers)];
    const one = dataOf(first.ask("{ top }"));
    while (loads === 0) await settle();
    const two = dataOf(second.ask("{ top }"));
    // Both reads share one tick and batch, so once this one returns, the other knows that it has to wait.
    expect(await dataOf(second.ask("{ slow }"))).toEqual({ slow: 8 });
    open();
    expect(await Promise.all([one, two])).toEqual([{ top: 7 }, { top: 7 }]);
    expect(loads).toBe(1);
    expect(second.outcomes()).toEqual({ coalesced: 1, loaded: 1 });
  });

  it("loads a cold key once for four processes with fifty requests each", async () => {
    let loads = 0;
    const shared = world();
    const processes = Array.from({ length: 4 }, () =>
      shared.process(typeDefs, { Query: { top: async () => ++loads } }),
    );
    const results = await Promise.all(
      processes.flatMap(({ ask }) => Array.from({ length: 50 }, () => dataOf(ask("{ top }")))),
    );
    expect(new Set(results.map((answer) => JSON.stringify(answer)))).toEqual(new Set(['{"top":1}']));
    expect(loads).toBe(1);
  });

  it("returns a hit before a slow load of the same tick ends", async () => {
    const { passed, open } = gate();
    const { ask } = world().process(typeDefs, { Query: { top: () => 1, slow: () => passed.then(() => 2) } });
    await ask("{ top }");
    const slow = ask("{ slow }");
    const together = ask("{ top slow }");
    expect(await dataOf(ask("{ top }"))).toEqual({ top: 1 });
    const order: string[] = [];
    void slow.then(() => order.push("slow"));
    open();
    expect(await dataOf(together)).toEqual({ top: 1, slow: 2 });
    await slow;
    expect(order).toEqual(["slow"]);
  });

  it("settles a hit of a request before a pending load of the same request", async () => {
    const { passed, open } = gate();
    const shared = world();
    const process = shared.process(
      "type Query { page: Page @cached(maxAge: 60) } type Page { id: ID! warm: Int @cached(maxAge: 60) cold: Int @cached(maxAge: 60) after: Int }",
      { Query: { page: () => ({ id: 1 }) }, Page: { warm: () => 1, cold: () => passed.then(() => 2) } },
    );
    await process.ask("{ page { warm } }");
    while (process.events.filter((event) => event.name === "write.finished").length < 2) await settle();
    const before = process.events.length;
    const both = process.ask("{ page { cold warm } }");
    while (
      !process.events.slice(before).some((event) => event.name === "entry.served" && event.coordinate === "Page.warm")
    )
      await settle();
    expect(process.events.slice(before).some((event) => event.name === "load.finished")).toBe(false);
    open();
    expect(await dataOf(both)).toEqual({ page: { cold: 2, warm: 1 } });
  });

  it("loads the keys that a process may load with one call of the batch function", async () => {
    const calls: number[][] = [];
    const shared = world();
    const make = () =>
      shared.process(typeDefs, {}).cache.loader<number, string>({
        name: "Movie",
        maxAge: 60,
        batch: async (ids) => {
          calls.push([...ids]);
          return ids.map((id) => `movie ${id}`);
        },
      });
    const [first, second] = [make(), make()];
    await first({}).loadMany([1, 2]);
    expect(await second({}).loadMany([1, 2, 3, 4])).toEqual(["movie 1", "movie 2", "movie 3", "movie 4"]);
    expect(calls).toEqual([
      [1, 2],
      [3, 4],
    ]);
  });
});
