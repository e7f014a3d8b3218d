import { gate, settle } from "@graphql-cached/testing";
import { parse } from "graphql";
import { describe, expect, it } from "vitest";
import { type Context, openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 600, tags: ["movie"]) @cacheControl(maxAge: 600)
    mine: String @cached(maxAge: 600, scope: PRIVATE) @cacheControl(maxAge: 600, scope: PRIVATE)
    slow: Slow @cacheControl(maxAge: 600)
    outer: String @cacheControl(maxAge: 600)
    outerOfMine: String @cacheControl(maxAge: 600)
  }
  type Slow @cacheControl(maxAge: 600) { title: String }
`;

function open(server: SiteOptions["server"], passes: (context: Context) => object) {
  const state = { title: "old", until: Promise.resolve() as Promise<unknown> };
  const ask = async (query: string, contextValue: object) =>
    (await site.cache.execute({ schema: site.schema, document: parse(query), contextValue })).data as Record<
      string,
      string
    >;
  const resolvers = {
    Query: {
      movie: () => state.title,
      mine: (_: unknown, __: unknown, { user }: Context) => user,
      slow: async () => {
        await state.until;
        return {};
      },
      outer: async (_: unknown, __: unknown, context: Context) => (await ask("{ movie }", passes(context))).movie,
      outerOfMine: async (_: unknown, __: unknown, context: Context) => (await ask("{ mine }", passes(context))).mine,
    },
    Slow: {
      title: async (_: unknown, __: unknown, context: Context) => (await ask("{ movie }", passes(context))).movie,
    },
  };
  const site = openSite({ typeDefs, resolvers, server });
  return { ...site, state, nested: ask };
}

describe.each(SERVERS)("an operation in a resolver on %s", (server) => {
  const contexts = {
    "the same context": (context: Context) => context,
    "a copy of the context": (context: Context) => ({ ...context }),
    "a context of its own": () => ({}),
  };
  for (const [name, passes] of Object.entries(contexts)) {
    it(`with ${name} that is a hit makes what contains it stale when it is invalidated`, async () => {
      const { ask, cache, state, nested } = open(server, passes);
      await nested("{ movie }", {});
      await nested("{ movie }", {});
      for (let time = 0; time < 2; time++) expect((await ask("{ outer }")).data).toEqual({ outer: "old" });
      state.title = "new";
      await cache.invalidateTags(["movie"]);
      await settle();
      expect((await ask("{ outer }")).data).toEqual({ outer: "new" });
    });

    it(`with ${name} that is executed makes what contains it stale when it is invalidated`, async () => {
      const { ask, cache, state } = open(server, passes);
      for (let time = 0; time < 2; time++) expect((await ask("{ outer }")).data).toEqual({ outer: "old" });
      state.title = "new";
      await cache.invalidateTags(["movie"]);
      await settle();
      expect((await ask("{ outer }")).data).toEqual({ outer: "new" });
    });

    if (name === "a context of its own") continue;
    it(`with ${name} that is of one caller makes what contains it that caller's`, async () => {
      const { ask, nested } = open(server, passes);
      for (const user of ["ann", "ann", "bob", "bob"]) await nested("{ mine }", { user });
      for (const user of ["ann", "bob", "ann"])
        expect((await ask("{ outerOfMine }", { user })).data).toEqual({ outerOfMine: user });
    });

    it(`with ${name} that is of one caller, and executed, makes what contains it that caller's`, async () => {
      const { ask } = open(server, passes);
      for (const user of ["ann", "bob", "ann"])
        expect((await ask("{ outerOfMine }", { user })).data).toEqual({ outerOfMine: user });
    });
  }
});

describe("two operations of cache.execute with one context", () => {
  const of = (query: string) => parse(query);
  it("are invalidated, whichever ends first", async () => {
    const state = { title: "old", until: Promise.resolve() as Promise<unknown> };
    const site = openSite({
      typeDefs: /* GraphQL */ `
        type Query { movie: String @cached(maxAge: 600, tags: ["movie"]) quick: Int @cached(maxAge: 600) slow: Slow @cacheControl(maxAge: 600) }
        type Slow @cacheControl(maxAge: 600) { movie: String @cached(maxAge: 600, key: ["$args"], tags: ["movie"]) }
      `,
      resolvers: {
        Query: {
          quick: () => 1,
          slow: async () => {
            await state.until;
            return {};
          },
          movie: () => state.title,
        },
        Slow: { movie: () => state.title },
      },
      server: "cache.execute",
    });
    const { cache, schema } = site;
    const ask = async (query: string, contextValue: object) =>
      (await cache.execute({ schema, document: of(query), contextValue })).data;
    const shared = {};
    const held = gate();
    state.until = held.passed as Promise<unknown>;
    const slow = ask("{ slow { movie } }", shared);
    await settle();
    await ask("{ quick }", shared);
    await ask("{ quick }", shared);
    held.open();
    expect(await slow).toEqual({ slow: { movie: "old" } });
    await settle();
    await ask("{ slow { movie } }", {});
    state.title = "new";
    await cache.invalidateTags(["movie"]);
    await settle();
    expect(await ask("{ slow { movie } }", {})).toEqual({ slow: { movie: "new" } });
  });
});
