import { settle } from "@graphql-cached/testing";
import type { GraphQLResolveInfo } from "graphql";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type ServerName, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) @cacheControl(maxAge: 60)
    short(id: ID!): Movie @cached(maxAge: 10) @cacheControl(maxAge: 60)
    now: Int @cacheControl(maxAge: 60)
    uncached: Int
    me: String @cached(maxAge: 60, scope: PRIVATE) @cacheControl(maxAge: 60, scope: PRIVATE)
    greeting: String @cached(maxAge: 60, key: ["$context.locale"]) @cacheControl(maxAge: 60)
    broken: Int @cacheControl(maxAge: 60)
  }
  type Mutation { rename(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"]) }
  type Movie { id: ID! title: String views: Int @cacheControl(maxAge: 60) }
`;

function open(server: ServerName, options: Partial<SiteOptions> = {}) {
  const executions: string[] = [];
  const titles = new Map<string, string>();
  const source = { isBroken: true };
  const count = (name: string): number => executions.filter((one) => one === name).length;
  const running =
    <T>(name: string, value: (args: never, context: Context) => T) =>
    (_: unknown, args: never, context: Context): T => (executions.push(name), value(args, context));
  const movie = running("movie", ({ id }: { id: string }) => ({ id, title: titles.get(id) ?? `Movie ${id}` }));
  const resolvers = {
    Query: {
      movie,
      short: movie,
      now: running("now", () => count("now")),
      uncached: running("uncached", () => executions.length),
      me: running("me", (_, { user }) => user ?? "nobody"),
      greeting: running("greeting", (_, { locale }) => (locale === "de" ? "Hallo" : "Hello")),
      broken: running("broken", () => {
        if (source.isBroken) throw new Error("away");
        return 1;
      }),
    },
    Mutation: {
      rename: (_: unknown, { id }: { id: string }) => (titles.set(id, `Renamed ${id}`), { id, title: titles.get(id) }),
    },
    Movie: { views: running("views", () => 7) },
  };
  return { ...openSite({ typeDefs, resolvers, server, ...options }), executions, count, titles, source };
}

describe.each(SERVERS)("the response cache on %s", (server) => {
  it("executes an operation once, and serves its response until a part becomes stale", async () => {
    const { ask, executions, clock } = open(server);
    const query = "{ movie(id: 1) { title views } now }";
    const first = await ask(query);
    expect(first.data).toEqual({ movie: { title: "Movie 1", views: 7 }, now: 1 });
    expect((await ask(query)).data).toEqual(first.data);
    expect(executions).toEqual(["now", "movie", "views"]);
    await clock.advance(60_000);
    expect((await ask(query)).data).not.toEqual(first.data);
    expect(executions).toHaveLength(6);
  });

  it("keeps a response no longer than what is left of its parts", async () => {
    const { ask, clock, count } = open(server);
    await ask("{ short(id: 1) { title } }");
    await clock.advance(4_000);
    await ask("{ now short(id: 1) { title } }");
    await clock.advance(5_900);
    await ask("{ now short(id: 1) { title } }");
    expect(count("now")).toBe(1);
    await clock.advance(200);
    await ask("{ now short(id: 1) { title } }");
    expect(count("now")).toBe(2);
  });

  it("reaches the responses of every spelling of an id with one invalidation", async () => {
    const { ask, cache, titles } = open(server);
    const queries = [
      "{ movie(id: 7) { title } }",
      '{ movie(id: "7") { title } }',
      "query Q { m: movie(id: 7) { title } }",
    ];
    for (const query of queries) await ask(query);
    titles.set("7", "new");
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 7 } });
    for (const query of queries) expect(JSON.stringify((await ask(query)).data)).toContain("new");
  });

  it("reaches the responses with a field that looks ahead with one invalidation", async () => {
    let title = "Ran";
    const movie = (...[, { id }, , { fieldNodes }]: [unknown, { id: string }, unknown, GraphQLResolveInfo]) => {
      const selected = JSON.stringify(fieldNodes);
      return { id, ...(selected.includes('"title"') && { title }), ...(selected.includes('"views"') && { views: 7 }) };
    };
    const { ask, cache } = openSite({ typeDefs, resolvers: { Query: { movie } }, server });
    const queries = ["{ movie(id: 1) { title } }", "{ movie(id: 1) { views title } }"];
    for (let time = 0; time < 3; time++) for (const query of queries) await ask(query);
    title = "Ran, restored";
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } });
    for (const query of queries) expect(JSON.stringify((await ask(query)).data)).toContain("restored");
  });

  it("answers a hundred aliases of a page as without it, and again after one of them has changed", async () => {
    const { ask, cache, titles } = open(server);
    const query = `{ ${Array.from({ length: 100 }, (_, id) => `m${id}: movie(id: ${id}) { title }`).join(" ")} }`;
    const { data } = await ask(query);
    expect((await ask(query)).data).toEqual(data);
    titles.set("99", "new");
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 99 } });
    await settle();
    expect((await ask(query)).data).toEqual({ ...data, m99: { title: "new" } });
  });

  it("does not keep a response of which a field may not be kept", async () => {
    const { ask, executions } = open(server);
    for (let time = 0; time < 3; time++) await ask("{ now uncached }");
    expect(executions).toEqual(["now", "uncached", "now", "uncached", "now", "uncached"]);
  });

  it("keeps the responses of each caller apart if a part is PRIVATE, and none without an identity", async () => {
    const { ask, count } = open(server);
    const query = "{ me now }";
    const first = await ask(query, { user: "ann" });
    expect((await ask(query, { user: "bob" })).data).toMatchObject({ me: "bob" });
    expect((await ask(query, { user: "ann" })).data).toEqual(first.data);
    for (const _ of [1, 2]) await ask(query);
    expect(count("now")).toBe(4);
  });

  it("does not show those who are signed in what guests have been shown, or the reverse", async () => {
    const { ask, executions } = open(server);
    for (const context of [{}, { user: "ann" }, { user: "bob" }, {}]) await ask("{ now }", context);
    expect(executions).toEqual(["now", "now"]);
  });

  it("keeps the responses for each value of the context in the key of a cached field apart", async () => {
    const { ask } = open(server);
    for (const [locale, greeting] of [
      ["de", "Hallo"],
      ["en", "Hello"],
      ["de", "Hallo"],
    ] as const)
      expect((await ask("{ greeting }", { locale })).data).toEqual({ greeting });
  });

  it("keeps responses apart by the paths in `key`", async () => {
    const { ask, executions } = open(server, { responses: { key: ["$context.locale"] } });
    for (const locale of ["de", "en", "de"]) await ask("{ now }", { locale });
    expect(executions).toEqual(["now", "now"]);
  });

  it("keeps responses apart by variables, and not by their spelling or by comments", async () => {
    const { ask, count } = open(server);
    const query = "query ($id: ID!) { now movie(id: $id) { title } }";
    expect((await ask(query, {}, { id: 1 })).data).toMatchObject({ movie: { title: "Movie 1" } });
    expect((await ask(query, {}, { id: "2", other: 1 })).data).toMatchObject({ movie: { title: "Movie 2" } });
    await ask(`# Another client\n${query.replaceAll(" ", "  ")}`, {}, { id: "1" });
    expect(count("now")).toBe(2);
  });

  it("keeps responses apart by the name of the operation", async () => {
    const { ask, executions } = open(server);
    await ask("query A { now }");
    await ask("query B { now }");
    expect(executions).toHaveLength(2);
  });

  it("does not keep a response with errors", async () => {
    const { ask, source, clock, count } = open(server);
    for (const _ of [1, 2]) expect((await ask("{ now broken }")).errors).toHaveLength(1);
    source.isBroken = false;
    await clock.advance(1_000);
    const answer = await ask("{ now broken }");
    expect([answer.data?.broken, answer.errors]).toEqual([1, undefined]);
    await ask("{ now broken }");
    expect(count("broken")).toBe(3);
  });

  it("serves an older response in place of one with errors within staleIfError", async () => {
    const { ask, source, clock } = open(server, { responses: { staleIfError: 600 } });
    source.isBroken = false;
    const first = await ask("{ now broken }");
    await clock.advance(61_000);
    source.isBroken = true;
    expect((await ask("{ now broken }")).data).toEqual(first.data);
    await clock.advance(700_000);
    expect((await ask("{ now broken }")).errors).toHaveLength(1);
  });

  it("serves an older response for no longer than errorBackoffMs, whatever errorMaxAgeMs says of the error", async () => {
    const asked: string[] = [];
    const errorMaxAgeMs = (_error: unknown, coordinate: string): number => (asked.push(coordinate), 60_000);
    const options = { responses: { staleIfError: 600 }, cache: { loads: { errorMaxAgeMs } } };
    const { ask, source, clock, executions } = open(server, options);
    source.isBroken = false;
    for (const _ of [1, 2]) await ask("{ now broken }");
    await clock.advance(61_000);
    source.isBroken = true;
    await ask("{ now broken }");
    source.isBroken = false;
    await clock.advance(2_000);
    const before = executions.length;
    await ask("{ now broken }");
    expect(executions.slice(before)).toEqual(["now", "broken"]);
    expect(asked).toEqual([]);
  });

  it("executes an operation once for all who ask at once", async () => {
    const { ask, executions } = open(server);
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask("{ now movie(id: 1) { title views } }")));
    expect(executions).toEqual(["now", "movie", "views"]);
    for (const { data } of answers) expect(data).toEqual(answers[0]?.data);
  });

  it("reports what it did", async () => {
    const { ask } = open(server);
    if (server === "cache.execute") return;
    await ask("{ now }");
    expect((await ask("{ now }")).extensions).toEqual({ cached: { responses: { hit: 1 } } });
  });
});
