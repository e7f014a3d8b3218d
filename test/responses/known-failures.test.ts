import { chaosStore, FakeClock, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  scalar Stamp
  type Query {
    sum(of: [[Int!]!]!): String @cacheControl(maxAge: 60)
    at(stamp: Stamp!): String @cacheControl(maxAge: 60)
    pair(a: Int, b: Int): String @cacheControl(maxAge: 60)
    list: [Item] @cacheControl(maxAge: 60)
    movie(id: ID!): Item @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) @cacheControl(maxAge: 60)
    unruled: Int
  }
  type Mutation { add: Int @cacheControl(maxAge: 60) }
  type Item @cacheControl(maxAge: 60) { id: ID! name: String broken: Int }
`;

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  let calls = 0;
  const names = new Map<string, string>();
  const resolvers = {
    Query: {
      sum: (_: unknown, { of }: { of: number[][] }) => `${++calls} ${JSON.stringify(of)}`,
      at: (_: unknown, { stamp }: { stamp: unknown }) => `${++calls} ${String(stamp)}`,
      pair: (_: unknown, { a, b }: { a?: number; b?: number }) => `${++calls} ${a} ${b}`,
      list: () => {
        calls++;
        return [
          { id: 1, name: "one" },
          { id: 2, name: "two" },
        ];
      },
      movie: (_: unknown, { id }: { id: string }) => {
        calls++;
        return { id, name: names.get(id) ?? "old" };
      },
      unruled: () => ++calls,
    },
    Mutation: { add: () => ++calls },
    Item: {
      broken: ({ id }: { id: number }) => {
        if (id === 2) throw new Error("broken");
        return id;
      },
    },
  };
  return { ...openSite({ typeDefs, resolvers, server, ...options }), names, calls: () => calls };
}

/** What has failed in other response caches, by `RESPONSES.md`; see test/THREATS.md for the rest. */
describe.each(SERVERS)("the response cache on %s", (server) => {
  it("tells nested lists apart that have the same members", async () => {
    const { ask, calls } = open(server);
    const query = "query ($of: [[Int!]!]!) { sum(of: $of) }";
    const answers = [[[1, 2], [3]], [[1], [2, 3]], [[1, 2, 3]], [[1, 2], [3]]];
    for (const of of answers) expect((await ask(query, {}, { of })).data?.sum).toContain(JSON.stringify(of));
    expect(calls()).toBe(3);
  });

  it("tells values of custom scalars apart by their type", async () => {
    const { ask, calls } = open(server);
    const query = "query ($stamp: Stamp!) { at(stamp: $stamp) }";
    for (const stamp of [1, "1", 1.5, true, "true"]) await ask(query, {}, { stamp });
    expect(calls()).toBe(5);
  });

  it("has one response for variables in another order, and others for those that are null or absent", async () => {
    const { ask, calls } = open(server);
    const query = "query ($a: Int, $b: Int) { pair(a: $a, b: $b) }";
    await ask(query, {}, { a: 1, b: 2 });
    await ask(query, {}, { b: 2, a: 1 });
    expect(calls()).toBe(1);
    await ask(query, {}, { a: 1, b: null });
    await ask(query, {}, { a: 1 });
    expect(calls()).toBe(3);
  });

  it("returns aliases as they were asked for, and fragments as if they were written out", async () => {
    const { ask } = open(server);
    const query = "{ one: list { key: id ...F } two: list { name } } fragment F on Item { title: name }";
    const first = await ask(query);
    const again = await ask(query);
    expect(again.data).toEqual(first.data);
    expect(again.data).toMatchObject({
      one: [
        { key: "1", title: "one" },
        { key: "2", title: "two" },
      ],
    });
  });

  it("never answers a mutation from the cache", async () => {
    const { ask } = open(server);
    expect([(await ask("mutation { add }")).data, (await ask("mutation { add }")).data]).toEqual([
      { add: 1 },
      { add: 2 },
    ]);
  });

  it("stores nothing without a rule that allows it", async () => {
    const { ask } = open(server);
    expect([(await ask("{ unruled }")).data, (await ask("{ unruled }")).data]).toEqual([
      { unruled: 1 },
      { unruled: 2 },
    ]);
  });

  it("returns the errors of items with their indexes, each time", async () => {
    const { ask } = open(server);
    for (let time = 0; time < 2; time++) {
      const { data, errors } = await ask("{ list { broken } }");
      expect(data).toEqual({ list: [{ broken: 1 }, { broken: null }] });
      expect(errors?.map(({ path }) => path)).toEqual([["list", 1, "broken"]]);
    }
  });

  it("rejects an invalidation that the store has not confirmed, and serves nothing that it concerns until it has", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const { ask, cache, names } = open(server, { store, clock });
    const query = "{ movie(id: 1) { name } list { name } }";
    await ask(query);
    names.set("1", "new");
    store.chaos.mode = "throws";
    await expect(cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } })).rejects.toThrow();
    store.chaos.mode = undefined;
    expect((await ask(query)).data).toMatchObject({ movie: { name: "new" } });
    await clock.advance(10_000);
    await settle();
    expect((await ask(query)).data).toMatchObject({ movie: { name: "new" } });
  });
});
