import { AsyncLocalStorage } from "node:async_hooks";
import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Context, openSite, SERVERS, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 600, tags: ["movie"]) @cacheControl(maxAge: 600)
    mine: String @cached(maxAge: 600, scope: PRIVATE) @cacheControl(maxAge: 600, scope: PRIVATE)
    quick: Int @cached(maxAge: 600)
    slow: Slow @cacheControl(maxAge: 600)
    outer: String @cacheControl(maxAge: 600)
    outerOfMine: String @cacheControl(maxAge: 600)
  }
  type Slow @cacheControl(maxAge: 600) { movie: String @cached(maxAge: 600, key: ["$args"], tags: ["movie"]) }
`;

/** A site with fields whose resolvers execute an operation each. `passes`: the context of that operation. */
function open(server: ServerName, passes: (context: Context) => object = (context) => context) {
  const state = { title: "old", until: Promise.resolve() };
  const movie = () => state.title;
  const containing = (field: string) => async (_: unknown, __: unknown, context: Context) =>
    (await site.execute(`{ ${field} }`, passes(context)))?.[field];
  const resolvers = {
    Query: {
      movie,
      mine: (_: unknown, __: unknown, { user }: Context) => user,
      quick: () => 1,
      slow: () => state.until.then(() => ({})),
      outer: containing("movie"),
      outerOfMine: containing("mine"),
    },
    Slow: { movie },
  };
  const site: ReturnType<typeof openSite> = openSite({ typeDefs, resolvers, server });
  return { ...site, state };
}

const CONTEXTS: readonly (readonly [string, (context: Context) => object])[] = [
  ["the same context", (context) => context],
  ["a copy of the context", (context) => ({ ...context })],
  ["a context of its own", () => ({})],
];

describe.each(SERVERS)("an operation in a resolver on %s", (server) => {
  for (const isHit of [true, false]) {
    const what = isHit ? "is a hit" : "is executed";
    it.each(CONTEXTS)(`with %s that ${what} makes what contains it stale when it is invalidated`, async (_, passes) => {
      const { ask, cache, state, execute } = open(server, passes);
      for (let time = 0; isHit && time < 2; time++) await execute("{ movie }");
      for (let time = 0; time < 2; time++) expect((await ask("{ outer }")).data).toEqual({ outer: "old" });
      state.title = "new";
      await cache.invalidateTags(["movie"]);
      await settle();
      expect((await ask("{ outer }")).data).toEqual({ outer: "new" });
    });

    it.each(CONTEXTS.slice(0, 2))(
      `with %s that is of one caller, and ${what}, makes what contains it that caller's`,
      async (_, passes) => {
        const { ask, execute } = open(server, passes);
        if (isHit) for (const user of ["ann", "ann", "bob", "bob"]) await execute("{ mine }", { user });
        for (const user of ["ann", "bob", "ann"])
          expect((await ask("{ outerOfMine }", { user })).data).toEqual({ outerOfMine: user });
      },
    );
  }
});

it("two operations of cache.execute with one context are invalidated, whichever ends first", async () => {
  const { execute, cache, state } = open("cache.execute");
  const shared = {};
  const held = gate();
  state.until = held.passed;
  const slow = execute("{ slow { movie } }", shared);
  await settle();
  for (const _ of [1, 2]) await execute("{ quick }", shared);
  held.open();
  expect(await slow).toEqual({ slow: { movie: "old" } });
  await execute("{ slow { movie } }");
  state.title = "new";
  await cache.invalidateTags(["movie"]);
  await settle();
  expect(await execute("{ slow { movie } }")).toEqual({ slow: { movie: "new" } });
});

it("what a function that bypasses the cache makes of one caller's response belongs to that caller", async () => {
  type Product = { readonly id: string; readonly line: string };
  let executions = 0;
  let later = (run: () => Promise<unknown>): unknown => run();
  const site: ReturnType<typeof openSite> = openSite({
    typeDefs: /* GraphQL */ `
      type Query {
        mine: Product @cached(maxAge: 600, scope: PRIVATE) @cacheControl(maxAge: 600, scope: PRIVATE)
        copy: Product
        product: Product
      }
      type Product { id: ID! line: String @cacheControl(maxAge: 600) reason: String @cached(maxAge: 600) }
    `,
    resolvers: (cache: { wrap: typeof site.cache.wrap }) => {
      const copyOf = cache.wrap({
        name: "copy",
        maxAge: 0,
        context: (context: Context) => context,
        load: async (context: Context) => {
          later = AsyncLocalStorage.snapshot();
          return { ...((await site.execute("{ mine { id line } }", context))?.mine as Product) };
        },
      });
      return {
        Query: {
          mine: (_: unknown, __: unknown, { user }: Context) => ({ id: "7", line: `for ${user}` }),
          copy: (_: unknown, __: unknown, context: Context) => copyOf(context),
          product: () => ({ id: "7", line: "for everybody" }),
        },
        Product: { reason: ({ line }: Product) => line, line: ({ line }: Product) => (executions++, line) },
      };
    },
  });
  for (let time = 0; time < 3; time++) await site.execute("{ mine { id line } }", { user: "ann" });
  // Without any, nothing counts as inside of one.
  const held = gate();
  onTestFinished(() => held.open());
  void site.cache.wrap({ name: "other", maxAge: 60, load: () => held.passed })();
  expect((await site.ask("{ copy { reason } }", { user: "ann" })).data).toEqual({ copy: { reason: "for ann" } });
  expect((await site.ask("{ product { reason } }", { user: "bob" })).data).toEqual({
    product: { reason: "for everybody" },
  });
  // What it has started can go on for long.
  const before = executions;
  await later(() => site.execute("{ mine { id line } }", { user: "ann" }));
  expect([before, executions]).toEqual([2, 2]);
});
