import { settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

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

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  const executions: string[] = [];
  const titles = new Map<string, string>();
  let isBroken = true;
  const source = { fail: false, mend: () => (isBroken = false), break: () => (isBroken = true) };
  const run = (name: string): void => void executions.push(name);
  const movie = (_: unknown, { id }: { id: string }) => {
    run(`movie ${id}`);
    return { id, title: titles.get(id) ?? `Movie ${id}` };
  };
  const resolvers = {
    Query: {
      movie,
      short: movie,
      now: () => {
        run("now");
        return executions.filter((one) => one === "now").length;
      },
      uncached: () => {
        run("uncached");
        return executions.length;
      },
      me: (_: unknown, __: unknown, { user }: { user?: string }) => {
        run(`me ${user}`);
        return user ?? "nobody";
      },
      greeting: (_: unknown, __: unknown, { locale }: { locale?: string }) => {
        run(`greeting ${locale}`);
        return locale === "de" ? "Hallo" : "Hello";
      },
      broken: () => {
        run("broken");
        if (isBroken) throw new Error("away");
        return 1;
      },
    },
    Mutation: {
      rename: (_: unknown, { id }: { id: string }) => {
        titles.set(id, `Renamed ${id}`);
        return { id, title: titles.get(id) };
      },
    },
    Movie: {
      views: () => {
        run("views");
        return 7;
      },
    },
  };
  return { ...openSite({ typeDefs, resolvers, server, ...options }), executions, titles, source };
}

describe.each(SERVERS)("the response cache on %s", (server) => {
  it("executes an operation once, and serves its response until a part becomes stale", async () => {
    const { ask, executions, clock } = open(server);
    const query = "{ movie(id: 1) { title views } now }";
    const first = await ask(query);
    expect(first.data).toEqual({ movie: { title: "Movie 1", views: 7 }, now: 1 });
    expect((await ask(query)).data).toEqual(first.data);
    expect(executions).toEqual(["now", "movie 1", "views"]);
    await clock.advance(60_000);
    expect((await ask(query)).data).not.toEqual(first.data);
    expect(executions).toHaveLength(6);
  });

  it("keeps a response no longer than what is left of its parts", async () => {
    const { ask, executions, clock } = open(server);
    await ask("{ short(id: 1) { title } }");
    await clock.advance(4_000);
    await ask("{ now short(id: 1) { title } }");
    await clock.advance(5_900);
    await ask("{ now short(id: 1) { title } }");
    expect(executions.filter((one) => one === "now")).toHaveLength(1);
    await clock.advance(200);
    await ask("{ now short(id: 1) { title } }");
    expect(executions.filter((one) => one === "now")).toHaveLength(2);
  });

  it("serves nothing stale after an invalidation of a part by tag, by entry, as a whole or of everything", async () => {
    const { ask, executions, cache } = open(server);
    const count = (): number => executions.filter((one) => one === "now").length;
    const query = "{ now movie(id: 1) { title } }";
    const invalidations = [
      () => cache.invalidateTags(["Movie:1"]),
      () => cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } }),
      () => cache.invalidate({ coordinate: "Query.movie" }),
      () => cache.clear(),
      () => cache.mutate({ entries: [{ coordinate: "Query.movie", args: { id: 1 } }] }, () => undefined),
    ];
    for (const [nth, invalidate] of invalidations.entries()) {
      await ask(query);
      await ask(query);
      expect(count()).toBe(nth + 1);
      await invalidate();
      await settle();
    }
    await ask(query);
    expect(count()).toBe(invalidations.length + 1);
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 2 } });
    await cache.invalidateTags(["Movie:2"]);
    await ask(query);
    expect(count()).toBe(invalidations.length + 1);
  });

  it("answers with the new value after a mutation", async () => {
    const { ask } = open(server);
    const query = "{ movie(id: 1) { title } now }";
    await ask(query);
    await ask("mutation { rename(id: 1) { title } }");
    expect((await ask(query)).data).toMatchObject({ movie: { title: "Renamed 1" } });
  });

  it("does not keep a response of which a field may not be kept", async () => {
    const { ask, executions } = open(server);
    for (let time = 0; time < 3; time++) await ask("{ now uncached }");
    expect(executions).toEqual(["now", "uncached", "now", "uncached", "now", "uncached"]);
  });

  it("keeps the responses of each caller apart if a part is PRIVATE, and none without an identity", async () => {
    const { ask, executions } = open(server);
    const query = "{ me now }";
    const first = await ask(query, { user: "ann" });
    expect((await ask(query, { user: "bob" })).data).toMatchObject({ me: "bob" });
    expect((await ask(query, { user: "ann" })).data).toEqual(first.data);
    await ask(query);
    await ask(query);
    expect(executions.filter((one) => one === "now")).toHaveLength(4);
  });

  it("does not show those who are signed in what guests have been shown, or the reverse", async () => {
    const { ask, executions } = open(server);
    await ask("{ now }");
    await ask("{ now }", { user: "ann" });
    await ask("{ now }", { user: "bob" });
    await ask("{ now }");
    expect(executions).toEqual(["now", "now"]);
  });

  it("keeps the responses for each value of the context in the key of a cached field apart", async () => {
    const { ask } = open(server);
    expect((await ask("{ greeting }", { locale: "de" })).data).toEqual({ greeting: "Hallo" });
    expect((await ask("{ greeting }", { locale: "en" })).data).toEqual({ greeting: "Hello" });
    expect((await ask("{ greeting }", { locale: "de" })).data).toEqual({ greeting: "Hallo" });
  });

  it("keeps responses apart by the paths in `key`", async () => {
    const { ask, executions } = open(server, { responses: { key: ["$context.locale"] } });
    await ask("{ now }", { locale: "de" });
    await ask("{ now }", { locale: "en" });
    await ask("{ now }", { locale: "de" });
    expect(executions).toEqual(["now", "now"]);
  });

  it("keeps responses apart by variables, and not by their spelling or by comments", async () => {
    const { ask, executions } = open(server);
    const query = "query ($id: ID!) { now movie(id: $id) { title } }";
    expect((await ask(query, {}, { id: 1 })).data).toMatchObject({ movie: { title: "Movie 1" } });
    expect((await ask(query, {}, { id: "2", other: 1 })).data).toMatchObject({ movie: { title: "Movie 2" } });
    await ask(`# Another client\n${query.replaceAll(" ", "  ")}`, {}, { id: "1" });
    expect(executions.filter((one) => one === "now")).toHaveLength(2);
  });

  it("keeps responses apart by the name of the operation", async () => {
    const { ask, executions } = open(server);
    await ask("query A { now }");
    await ask("query B { now }");
    expect(executions).toHaveLength(2);
  });

  it("does not keep a response with errors", async () => {
    const { ask, executions, source, clock } = open(server);
    expect((await ask("{ now broken }")).errors).toHaveLength(1);
    expect((await ask("{ now broken }")).errors).toHaveLength(1);
    source.mend();
    await clock.advance(1_000);
    const answer = await ask("{ now broken }");
    expect([answer.data?.broken, answer.errors]).toEqual([1, undefined]);
    await ask("{ now broken }");
    expect(executions.filter((one) => one === "broken")).toHaveLength(3);
  });

  it("serves an older response in place of one with errors within staleIfError", async () => {
    const { ask, source, clock } = open(server, { responses: { staleIfError: 600 } });
    source.mend();
    const first = await ask("{ now broken }");
    await clock.advance(61_000);
    source.break();
    expect((await ask("{ now broken }")).data).toEqual(first.data);
    await clock.advance(700_000);
    expect((await ask("{ now broken }")).errors).toHaveLength(1);
  });

  it("serves an older response for no longer than errorBackoffMs, whatever errorMaxAgeMs says of the error", async () => {
    const asked: string[] = [];
    const errorMaxAgeMs = (_error: unknown, coordinate: string): number => {
      asked.push(coordinate);
      return 60_000;
    };
    const options = { responses: { staleIfError: 600 }, cache: { loads: { errorMaxAgeMs } } };
    const { ask, source, clock, executions } = open(server, options);
    source.mend();
    for (const _ of [1, 2]) await ask("{ now broken }");
    await clock.advance(61_000);
    source.break();
    await ask("{ now broken }");
    source.mend();
    await clock.advance(2_000);
    const before = executions.length;
    await ask("{ now broken }");
    expect(executions.slice(before)).toEqual(["now", "broken"]);
    expect(asked).toEqual([]);
  });

  it("executes an operation once for all who ask at once", async () => {
    const { ask, executions } = open(server);
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask("{ now movie(id: 1) { title views } }")));
    expect(executions).toEqual(["now", "movie 1", "views"]);
    for (const { data } of answers) expect(data).toEqual(answers[0]?.data);
  });

  it("reports what it did", async () => {
    const { ask } = open(server);
    if (server === "cache.execute") return;
    await ask("{ now }");
    expect((await ask("{ now }")).extensions).toEqual({ cached: { responses: { hit: 1 } } });
  });
});
