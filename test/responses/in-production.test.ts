import { FakeClock, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = (scope: string): string => /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) @cacheControl(maxAge: 60)
    greeting: String @cacheControl(maxAge: 60${scope})
  }
  type Movie @cacheControl(maxAge: 60) { id: ID! title: String }
`;

describe.each(SERVERS)("the response cache in production, on %s", (server) => {
  it("shares no response between two releases of which one has made a field PRIVATE", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const resolvers = { Query: { greeting: (_: unknown, __: unknown, { user }: Context) => `Hello ${user}` } };
    const before = openSite({ server, store, clock, resolvers, typeDefs: typeDefs("") });
    const after = openSite({ server, store, clock, resolvers, typeDefs: typeDefs(", scope: PRIVATE") });
    await before.ask("{ greeting }", { user: "ann" });
    expect((await after.ask("{ greeting }", { user: "bob" })).data).toEqual({ greeting: "Hello bob" });
    expect((await after.ask("{ greeting }", { user: "ann" })).data).toEqual({ greeting: "Hello ann" });
    expect((await after.ask("{ greeting }", { user: "bob" })).data).toEqual({ greeting: "Hello bob" });
  });

  it("shares no response between two releases in which a field has another type", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const release = (type: string, greeting: unknown) =>
      openSite({
        ...{ server, store, clock, resolvers: { Query: { greeting: () => greeting } } },
        typeDefs: typeDefs("").replace("greeting: String", `greeting: ${type}`),
      });
    const [before, after] = [release("String", "Hello"), release("Int", 1)];
    await before.ask("{ greeting }");
    expect((await after.ask("{ greeting }")).data).toEqual({ greeting: 1 });
    expect((await before.ask("{ greeting }")).data).toEqual({ greeting: "Hello" });
  });

  it("reaches the responses of every spelling of an id with one invalidation", async () => {
    let title = "old";
    const resolvers = { Query: { movie: (_: unknown, { id }: { id: string }) => ({ id, title }) } };
    const { ask, cache } = openSite({ server, resolvers, typeDefs: typeDefs("") });
    const queries = [
      "{ movie(id: 7) { title } }",
      '{ movie(id: "7") { title } }',
      "query Q { m: movie(id: 7) { title } }",
    ];
    for (const query of queries) await ask(query);
    title = "new";
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    for (const query of queries) expect(JSON.stringify((await ask(query)).data)).toContain("new");
  });

  it("answers a hundred aliases of a page as without it, and again after one of them has changed", async () => {
    const titles = new Map<string, string>();
    const resolvers = {
      Query: { movie: (_: unknown, { id }: { id: string }) => ({ id, title: titles.get(id) ?? `Movie ${id}` }) },
    };
    const { ask, cache } = openSite({ server, resolvers, typeDefs: typeDefs("") });
    const query = `{ ${Array.from({ length: 100 }, (_, id) => `m${id}: movie(id: ${id}) { title }`).join(" ")} }`;
    const first = await ask(query);
    expect((await ask(query)).data).toEqual(first.data);
    titles.set("99", "new");
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 99 } });
    await settle();
    expect((await ask(query)).data).toEqual({ ...first.data, m99: { title: "new" } });
  });
});
