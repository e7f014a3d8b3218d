import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cacheControl(maxAge: 600)
    movie(id: ID!): Movie @cached(maxAge: 60) @cacheControl(maxAge: 600)
    slow: Int @cacheControl(maxAge: 600)
    uncacheable: Int
  }
  type Page @cacheControl(maxAge: 600) { movies: [Movie] first: Movie mine: String }
  type Movie @cacheControl(maxAge: 600) { id: ID! title: String }
`;

interface Movie {
  readonly id: number;
  readonly title: string;
}

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}, count = 3) {
  const titles = new Map<number, string>();
  const loads: number[] = [];
  let executions = 0;
  const contexts: object[] = [];
  const [reached, held] = [gate(), gate()];
  const resolvers = {
    Query: {
      page: () => {
        executions++;
        return {};
      },
      slow: async () => {
        reached.open();
        await held.passed;
        return 1;
      },
      movie: (_: unknown, { id }: { id: string }) => ({ id, title: titles.get(Number(id)) ?? `Movie ${id}` }),
    },
    Page: {
      movies: (_: unknown, __: unknown, context: object) =>
        movies(contexts[0] ?? context).loadMany(Array.from({ length: count }, (___, id) => id)),
      first: (_: unknown, __: unknown, context: object) => movies(context).load(0),
      mine: (_: unknown, __: unknown, context: object) => mine(context).load(0),
    },
  };
  const site = openSite({ typeDefs, resolvers, server, ...options });
  const movies = site.cache.loader<number, Movie>({
    name: "Movie",
    maxAge: 60,
    batch: async (ids) => {
      loads.push(...ids);
      return ids.map((id) => ({ id, title: titles.get(id) ?? `Movie ${id}` }));
    },
  });
  const mine = site.cache.loader<number, string, { user?: string }>({
    name: "Mine",
    maxAge: 60,
    scope: "PRIVATE",
    batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
  });
  return { ...site, titles, loads, contexts, reached, held, movies, executions: () => executions };
}

describe.each(SERVERS)("what a response is made of, on %s", (server) => {
  it.each([
    ["a key", { loader: "Movie", id: 0 }],
    ["a whole loader", { loader: "Movie" }],
  ])(
    "is not served by a process whose invalidation of a part by %s is unconfirmed, although another has stored it since",
    async (_what, target) => {
      const clock = new FakeClock();
      const inner = memoryStore({ clock });
      const store = chaosStore(inner);
      const [one, other] = [open(server, { store, clock }), open(server, { store: inner, clock })];
      await other.ask("{ page { first { id } } }");
      await settle();
      await one.ask("{ page { first { id } } }");
      for (const { titles } of [one, other]) titles.set(0, "Renamed");
      store.chaos.mode = "throws";
      await expect(one.cache.invalidate(target)).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
      store.chaos.mode = undefined;
      await other.cache.invalidateTags(["Unrelated"]);
      const query = "{ page { first { title } } }";
      expect((await other.ask(query)).data).toEqual({ page: { first: { title: "Movie 0" } } });
      await settle();
      expect((await one.ask(query)).data).toEqual({ page: { first: { title: "Renamed" } } });
    },
  );

  it("includes what loaders have read in resolvers that are not cached", async () => {
    const { ask, cache, titles, executions } = open(server);
    const query = "{ page { movies { title } } }";
    await ask(query);
    await ask(query);
    expect(executions()).toBe(1);
    titles.set(1, "Renamed");
    await cache.invalidate({ loader: "Movie", id: 1 });
    expect((await ask(query)).data).toEqual({
      page: { movies: [{ title: "Movie 0" }, { title: "Renamed" }, { title: "Movie 2" }] },
    });
    await cache.invalidate({ loader: "Movie", id: 7 });
    await ask(query);
    expect(executions()).toBe(2);
    await cache.invalidate({ loader: "Movie" });
    await ask(query);
    expect(executions()).toBe(3);
  });

  it("includes the entries of a loader beyond those that have a tag each", async () => {
    const { ask, cache, executions } = open(server, {}, 300);
    const query = "{ page { movies { title } } }";
    await ask(query);
    await ask(query);
    expect(executions()).toBe(1);
    await cache.invalidate({ loader: "Movie", id: 299 });
    await ask(query);
    expect(executions()).toBe(2);
  });

  it("makes a response PRIVATE if a loader below a PUBLIC field is", async () => {
    const { ask, executions } = open(server);
    const query = "{ page { mine } }";
    for (const user of ["ann", "bob", "ann", "bob"])
      expect((await ask(query, { user })).data).toEqual({ page: { mine: user } });
    // The first shows that the operation is PRIVATE, so that its response has no key.
    const before = executions();
    for (const user of ["ann", "bob"]) expect((await ask(query, { user })).data).toEqual({ page: { mine: user } });
    expect(executions()).toBe(before);
  });

  it("includes what a loader of another context has read meanwhile, as one that is made before the server copies the context", async () => {
    const { ask, cache, contexts, executions } = open(server);
    contexts.push({});
    const query = "{ page { movies { title } } }";
    await ask(query);
    await ask(query);
    expect(executions()).toBe(1);
    await cache.invalidate({ loader: "Movie", id: 1 });
    contexts[0] = {};
    await ask(query);
    expect(executions()).toBe(2);
  });

  it("is not known if a loader has read it before, so that such a response is not stored", async () => {
    const { ask, contexts, executions, movies } = open(server);
    const context = {};
    contexts.push(context);
    await movies(context).load(1);
    const query = "{ page { movies { title } } }";
    await ask(query);
    await ask(query);
    expect(executions()).toBe(2);
  });

  it("includes nothing of other operations that are executed meanwhile", async () => {
    const { ask, reached, held, cache, executions } = open(server);
    const asked = ask("{ slow page { first { title } } }");
    await reached.passed;
    await ask("{ __typename movie(id: 7) { title } uncacheable }");
    held.open();
    await asked;
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    const before = executions();
    await ask("{ slow page { first { title } } }");
    expect(executions()).toBe(before);
  });

  it("is invalidated by a process that knows nothing of responses", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const { ask, executions } = open(server, { store, clock });
    const other = open("cache.execute", { store, clock });
    const query = "{ page { movies { title } } }";
    await ask(query);
    await ask(query);
    expect(executions()).toBe(1);
    await other.cache.invalidate({ loader: "Movie", id: 1 });
    await ask(query);
    expect(executions()).toBe(2);
    await other.cache.invalidate({ loader: "Movie" });
    await ask(query);
    expect(executions()).toBe(3);
  });

  it("is invalidated although the invalidating process does not see at first that there are responses", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const other = open("cache.execute", { store, clock });
    await other.ask("mutation { __typename }").catch(() => undefined);
    await other.movies({}).load(1);
    const { ask, executions } = open(server, { store, clock });
    await ask("{ page { movies { title } } }");
    await other.cache.invalidate({ loader: "Movie", id: 1 });
    await ask("{ page { movies { title } } }");
    expect(executions()).toBe(2);
  });

  it("does not include an older value that an invalidation has overtaken while the operation was executed", async () => {
    const { ask, cache, titles, movies, reached, held } = open(server);
    await movies({}).load(0);
    await settle();
    const query = "{ page { first { title } } slow }";
    const asked = ask(query);
    await reached.passed;
    await settle();
    titles.set(0, "Renamed");
    await cache.invalidate({ loader: "Movie", id: 0 });
    held.open();
    expect((await asked).data).toMatchObject({ page: { first: { title: "Movie 0" } } });
    expect((await ask(query)).data).toMatchObject({ page: { first: { title: "Renamed" } } });
  });
});
