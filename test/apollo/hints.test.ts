import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { FakeClock, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";

interface Context {
  readonly isAdmin?: boolean;
}

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query {
    said: Int @cached(maxAge: 60, jitter: 0, staleWhileRevalidate: 60)
    mine: Int @cached(maxAge: 60, jitter: 0)
    narrowed: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 500)
    plain: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 500)
    broken: Int @cached(maxAge: 60) @cacheControl(maxAge: 500)
  }
`;

interface Info {
  readonly cacheControl: {
    setCacheHint(hint: object): void;
    readonly cacheHint: { restrict(hint: object): void };
  };
}

function site() {
  const clock = new FakeClock();
  const loads: string[] = [];
  const field =
    (name: string, say: (info: Info) => void) => async (_: unknown, __: unknown, ___: unknown, info: Info) => {
      loads.push(name);
      await settle();
      say(info);
      return loads.length;
    };
  const resolvers = {
    Query: {
      said: field("said", ({ cacheControl }) => cacheControl.setCacheHint({ maxAge: 40 })),
      mine: field("mine", ({ cacheControl }) => cacheControl.setCacheHint({ maxAge: 300, scope: "PRIVATE" })),
      narrowed: field("narrowed", ({ cacheControl }) =>
        cacheControl.cacheHint.restrict({ maxAge: 30, scope: "PRIVATE" }),
      ),
      plain: field("plain", () => undefined),
      broken: field("broken", () => {
        throw new Error("away");
      }),
    },
  };
  const cache = createCache<Context>({ store: memoryStore({ clock }), clock, defaults: { earlyRefresh: 0 } });
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as never }),
    cache,
  );
  const allow = ({ isAdmin }: Context): boolean => isAdmin === true;
  const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache, { allow })] });
  const ask = async (query: string, contextValue: Context = {}, cached?: unknown) => {
    const response = await server.executeOperation({ query, extensions: { cached } }, { contextValue });
    await settle();
    const result = response.body.kind === "single" ? response.body.singleResult : undefined;
    return { data: result?.data, extensions: result?.extensions, header: response.http.headers.get("cache-control") };
  };
  return { ask, cache, clock, loads };
}

describe("what a load says of its response", () => {
  it("is said again for whoever gets the value from the cache, its maxAge lowered to what is left of the freshness", async () => {
    const { ask, clock, loads } = site();
    expect((await ask("{ said }")).header).toBe("max-age=40, public");
    await clock.advance(10_000);
    expect((await ask("{ said }")).header).toBe("max-age=40, public");
    await clock.advance(30_000);
    expect((await ask("{ said }")).header).toBe("max-age=20, public");
    expect(loads).toEqual(["said"]);
  });

  it("stays private", async () => {
    const { ask, loads } = site();
    for (const query of ["{ mine }", "{ narrowed }", "{ plain mine }"])
      for (let nth = 0; nth < 2; nth++) expect((await ask(query)).header).toMatch(/^max-age=\d+, private$/);
    expect((await ask("{ narrowed }")).header).toBe("max-age=30, private");
    expect(loads).toEqual(["mine", "narrowed", "plain"]);
  });

  it("does not count for a value that is served stale: nobody may keep it", async () => {
    const { ask, clock } = site();
    await ask("{ said }");
    await clock.advance(61_000);
    expect((await ask("{ said }")).header).toBe("no-store");
    for (let nth = 0; nth < 3; nth++) await settle();
    expect((await ask("{ said }")).header).toMatch(/^max-age=(39|40), public$/);
  });

  it("does not keep a response with an error from being kept by nobody", async () => {
    const { ask } = site();
    for (let nth = 0; nth < 2; nth++) expect((await ask("{ plain broken }")).header).toBe("no-store");
  });
});

describe("a request that wants values from their sources", () => {
  const admin = { isAdmin: true };

  it("with BYPASS reads and stores nothing", async () => {
    const { ask, loads } = site();
    await ask("{ plain }");
    const { data, extensions } = await ask("{ plain }", { ...admin }, "BYPASS");
    expect(data).toEqual({ plain: 2 });
    expect(extensions).toEqual({ cached: { "Query.plain": { "bypassed(REQUESTED)": 1 } } });
    expect((await ask("{ plain }")).data).toEqual({ plain: 1 });
    expect(loads).toHaveLength(2);
  });

  it("with REFRESH has them loaded now, for everybody", async () => {
    const { ask, loads } = site();
    await ask("{ plain }");
    const { data, extensions } = await ask("{ plain }", { ...admin }, "REFRESH");
    expect(data).toEqual({ plain: 2 });
    expect(extensions).toEqual({ cached: { "Query.plain": { loaded: 1 } } });
    expect((await ask("{ plain }")).data).toEqual({ plain: 2 });
    expect(loads).toHaveLength(2);
  });

  it("has to be allowed to", async () => {
    const { ask, loads } = site();
    for (const cached of [undefined, "BYPASS", "REFRESH"])
      expect(await ask("{ plain }", {}, cached)).toMatchObject({ data: { plain: 1 }, extensions: undefined });
    expect(loads).toHaveLength(1);
  });

  it("can say so by its context on any server, for loaders too", async () => {
    const { cache } = site();
    let loads = 0;
    const load = cache.loader<number, number, object>({
      name: "N",
      maxAge: 60,
      batch: async (ids) => ids.map(() => ++loads),
    });
    expect(await load({}).load(7)).toBe(1);
    await settle();
    const [bypassing, refreshing] = [{}, {}];
    cache.override(bypassing, "BYPASS");
    cache.override(refreshing, "REFRESH");
    expect(await load(bypassing).load(7)).toBe(2);
    expect(await load({}).load(7)).toBe(1);
    expect(await load(refreshing).load(7)).toBe(3);
    await settle();
    expect(await load({}).load(7)).toBe(3);
    expect(() => cache.override({}, "FORCE" as never)).toThrow(
      'cache.override: a request\'s context and BYPASS or REFRESH were expected, an object and "FORCE" came',
    );
  });
});
