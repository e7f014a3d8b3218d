import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { describe, expect, it, vi } from "vitest";
import { type Context, openSite, SERVERS, type ServerName, type SiteOptions } from "./site.js";

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

/** A site with loaders below its page. They are called with the first of `contexts`, if there is one. */
function open(server: ServerName, options: Partial<SiteOptions> = {}, count = 3) {
  const titles = new Map<number, string>();
  const contexts: Context[] = [];
  const seen: Context[] = [];
  const state = { executions: 0, until: Promise.resolve() };
  const [reached, held] = [gate(), gate()];
  const movie = (id: number) => ({ id, title: titles.get(id) ?? `Movie ${id}` });
  const resolvers = {
    Query: {
      page: async () => {
        state.executions++;
        await state.until;
        return {};
      },
      slow: async () => {
        reached.open();
        await held.passed;
        return 1;
      },
      movie: (_: unknown, { id }: { id: string }) => movie(Number(id)),
      uncacheable: (_: unknown, __: unknown, context: Context) => seen.push(context),
    },
    Page: {
      movies: (_: unknown, __: unknown, context: Context) =>
        movies(contexts[0] ?? context).loadMany(Array.from({ length: count }, (___, id) => id)),
      first: (_: unknown, __: unknown, context: Context) => movies(context).load(0),
      mine: (_: unknown, __: unknown, context: Context) => mine(context).load(0),
    },
  };
  const site = openSite({ typeDefs, resolvers, server, ...options });
  const batch = async (ids: readonly number[]) => ids.map(movie);
  const movies = site.cache.loader({ name: "Movie", maxAge: 60, batch });
  const mine = site.cache.loader<number, string>({
    name: "Mine",
    maxAge: 60,
    scope: "PRIVATE",
    batch: async (ids, { user }) => ids.map(() => user ?? "nobody"),
  });
  const executions = (): number => state.executions;
  return { ...site, titles, contexts, seen, state, reached, held, movies, executions };
}

const MOVIES = "{ page { movies { title } } }";

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
    for (const _ of [1, 2]) await ask(MOVIES);
    expect(executions()).toBe(1);
    titles.set(1, "Renamed");
    await cache.invalidate({ loader: "Movie", id: 1 });
    expect((await ask(MOVIES)).data).toEqual({
      page: { movies: [{ title: "Movie 0" }, { title: "Renamed" }, { title: "Movie 2" }] },
    });
    await cache.invalidate({ loader: "Movie", id: 7 });
    await ask(MOVIES);
    expect(executions()).toBe(2);
    await cache.invalidate({ loader: "Movie" });
    await ask(MOVIES);
    expect(executions()).toBe(3);
  });

  it("includes the entries of a loader beyond those that have a tag each", async () => {
    const { ask, cache, executions } = open(server, {}, 300);
    for (const _ of [1, 2]) await ask(MOVIES);
    expect(executions()).toBe(1);
    await cache.invalidate({ loader: "Movie", id: 299 });
    await ask(MOVIES);
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
    for (const _ of [1, 2]) await ask(MOVIES);
    expect(executions()).toBe(1);
    await cache.invalidate({ loader: "Movie", id: 1 });
    contexts[0] = {};
    await ask(MOVIES);
    expect(executions()).toBe(2);
  });

  it("includes what was read with the context of a request that has ended, as by a DataLoader that serves all requests", async () => {
    const { ask, cache, contexts, seen, executions } = open(server);
    await ask("{ uncacheable }");
    contexts.push(seen[0] as Context);
    for (const _ of [1, 2]) await ask(MOVIES);
    expect(executions()).toBe(1);
    await cache.invalidate({ loader: "Movie", id: 1 });
    await ask(MOVIES);
    expect(executions()).toBe(2);
  });

  it("is executed by all requests at once when it is known that its response is refused every time", async () => {
    const { ask, contexts, movies, state } = open(server);
    contexts.push({});
    await movies(contexts[0] as Context).load(1);
    for (let round = 0; round < 3; round++) await ask(MOVIES);
    const held = gate();
    state.until = held.passed;
    state.executions = 0;
    const asked = [1, 2, 3].map(() => ask(MOVIES));
    for (let turn = 0; turn < 20; turn++) await settle();
    const { executions } = state;
    held.open();
    await Promise.all(asked);
    expect(executions).toBe(3);
  });

  it.each<[string, object, (site: ReturnType<typeof openSite>) => Promise<unknown>]>([
    ["is fresh for no longer than what a resolver has primed a loader with", {}, ({ clock }) => clock.advance(60_000)],
    [
      "is not stored if a primed id has no key, since no invalidation would reach it",
      {
        cacheKeyFn: () => {
          throw new Error("no key");
        },
      },
      ({ cache }) => cache.invalidate({ loader: "Version" }),
    ],
  ])("%s", async (_, options, outdate) => {
    let version = 1;
    const site = openSite({
      typeDefs: `type Query { page: Page @cacheControl(maxAge: 600) } type Page @cacheControl(maxAge: 600) { version: Int }`,
      resolvers: {
        Query: { page: () => ({}) },
        Page: { version: (_: unknown, __: unknown, context: Context) => versions(context).prime(1, version).load(1) },
      },
      server,
    });
    const batch = async (ids: readonly number[]) => ids.map(() => version);
    const versions = site.cache.loader<number, number>({ name: "Version", maxAge: 10, batch, ...options });
    await site.ask("{ page { version } }");
    version = 2;
    await outdate(site);
    expect((await site.ask("{ page { version } }")).data).toEqual({ page: { version: 2 } });
  });

  it("is not known if a loader has read it before, so that such a response is not stored", async () => {
    const { ask, contexts, executions, movies } = open(server);
    const context = {};
    contexts.push(context);
    await movies(context).load(1);
    for (const _ of [1, 2]) await ask(MOVIES);
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
    for (const _ of [1, 2]) await ask(MOVIES);
    expect(executions()).toBe(1);
    await other.cache.invalidate({ loader: "Movie", id: 1 });
    await ask(MOVIES);
    expect(executions()).toBe(2);
    await other.cache.invalidate({ loader: "Movie" });
    await ask(MOVIES);
    expect(executions()).toBe(3);
  });

  it("is invalidated although the invalidating process does not see at first that there are responses", async () => {
    const clock = new FakeClock();
    const store = chaosStore(memoryStore({ clock }));
    const other = open("cache.execute", { store, clock });
    await other.ask("mutation { __typename }").catch(() => undefined);
    await other.movies({}).load(1);
    const { ask, executions } = open(server, { store, clock });
    await ask(MOVIES);
    await other.cache.invalidate({ loader: "Movie", id: 1 });
    await ask(MOVIES);
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

  it("does not include an execution whose time is over", async () => {
    let executions = 0;
    const [reached, held] = [gate(), gate()];
    const hung = async () => {
      reached.open();
      await held.passed;
    };
    const { ask, execute, clock } = openSite({
      typeDefs: "type Query { hung: Int @cacheControl(maxAge: 600) page: Int @cacheControl(maxAge: 600) }",
      resolvers: { Query: { hung, page: () => ++executions } },
      server,
      responses: { scope: "PUBLIC" },
      cache: { loads: { loadTimeoutMs: 1_000 } },
    });
    const asked = ask("{ hung }");
    await reached.passed;
    await clock.advance(2_000);
    const answers: unknown[] = [];
    for (let nth = 0; nth < 3; nth++) answers.push(await execute("{ page }", {}, { scope: "PUBLIC" }));
    held.open();
    await asked;
    expect(answers).toEqual([{ page: 1 }, { page: 1 }, { page: 1 }]);
  });

  it("is not stored as fresh if its value was softly invalidated while it was loaded for another request", async () => {
    const source = { version: 1, loads: 0, hold: Promise.resolve() };
    const rate = async (): Promise<number> => {
      const { version } = source;
      source.loads++;
      await source.hold;
      return version;
    };
    const { ask, cache } = openSite({
      typeDefs: `type Query { rate: Int @cached(maxAge: 60, tags: ["Rate"]) @cacheControl(maxAge: 60) }`,
      resolvers: { Query: { rate } },
      server,
    });
    const loadGate = gate();
    source.hold = loadGate.passed;
    // Another operation loads the value, and the invalidation comes before this one asks for it.
    const other = ask("{ other: rate }");
    await vi.waitFor(() => expect(source.loads).toBe(1));
    source.version = 2;
    await cache.invalidateTags(["Rate"], { soft: true });
    const first = ask("{ rate }");
    for (let nth = 0; nth < 3; nth++) await settle();
    loadGate.open();
    expect((await first).data).toEqual({ rate: 1 });
    await other;
    await settle();
    for (let nth = 0; nth < 3; nth++) {
      await ask("{ rate }");
      await settle();
    }
    expect((await ask("{ rate }")).data).toEqual({ rate: 2 });
    expect(source.loads).toBe(2);
  });
});
