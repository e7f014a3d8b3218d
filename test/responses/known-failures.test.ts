import { chaosStore, FakeClock, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type ServerName, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    pair(a: Int, b: Int): String @cacheControl(maxAge: 60)
    list: [Item] @cacheControl(maxAge: 60)
    movie(id: ID!): Item @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) @cacheControl(maxAge: 60)
    unruled: Int
  }
  type Mutation { add: Int @cacheControl(maxAge: 60) }
  type Item @cacheControl(maxAge: 60) { id: ID! name: String broken: Int }
`;

function open(server: ServerName, options: Partial<SiteOptions> = {}) {
  let calls = 0;
  const names = new Map<string, string>();
  const resolvers = {
    Query: {
      pair: (_: unknown, { a, b }: { a?: number; b?: number }) => `${++calls} ${a} ${b}`,
      list: () => [{ id: 1 }, { id: 2 }],
      movie: (_: unknown, { id }: { id: string }) => ({ id, name: names.get(id) ?? "old" }),
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

  it.each([
    ["never answers a mutation from the cache", "mutation { add }", "add"],
    ["stores nothing without a rule that allows it", "{ unruled }", "unruled"],
  ])("%s", async (_, query, field) => {
    const { ask } = open(server);
    for (const calls of [1, 2]) expect((await ask(query)).data).toEqual({ [field]: calls });
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
