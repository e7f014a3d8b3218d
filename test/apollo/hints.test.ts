import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import {
  applyCached,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  memoryStore,
  resultControl,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";

interface Context {
  readonly isAdmin?: boolean;
}

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query {
    hinted: Int @cached(maxAge: 60, jitter: 0, staleWhileRevalidate: 60)
    mine: Int @cached(maxAge: 60, jitter: 0, scope: PUBLIC)
    narrowed: Int @cached(maxAge: 60, jitter: 0, scope: PUBLIC) @cacheControl(maxAge: 500)
    plain: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 500)
    broken: Int @cached(maxAge: 60) @cacheControl(maxAge: 500)
    shortened: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 500)
    skipped: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 500)
  }
`;

interface Info {
  readonly cacheControl: {
    setCacheHint(hint: object): void;
    readonly cacheHint: { restrict(hint: object): void };
  };
}

function createSite(options: CacheOptions<Context> = {}) {
  const clock = new FakeClock();
  const loads: string[] = [];
  const field =
    (name: string, setHint: (info: Info) => void) => async (_: unknown, __: unknown, ___: unknown, info: Info) => {
      loads.push(name);
      await settle();
      setHint(info);
      return loads.length;
    };
  const resolvers = {
    Query: {
      hinted: field("hinted", ({ cacheControl }) => cacheControl.setCacheHint({ maxAge: 40 })),
      mine: field("mine", ({ cacheControl }) => cacheControl.setCacheHint({ maxAge: 300, scope: "PRIVATE" })),
      narrowed: field("narrowed", ({ cacheControl }) =>
        cacheControl.cacheHint.restrict({ maxAge: 30, scope: "PRIVATE" }),
      ),
      plain: field("plain", () => undefined),
      shortened: field("shortened", (info) => resultControl(info).set({ maxAge: 20 })),
      skipped: field("skipped", (info) => resultControl(info).skip()),
      broken: field("broken", () => {
        throw new Error("away");
      }),
    },
  };
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    defaults: { earlyRefresh: 0 },
    ...options,
  });
  onTestFinished(() => cache.close());
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

describe("cache hints set by a load", () => {
  it("are lowered to the lifetime that the load has set for its result", async () => {
    const { ask, clock, loads } = createSite();
    expect((await ask("{ shortened }")).header).toBe("max-age=20, public");
    await clock.advance(5_000);
    expect((await ask("{ shortened }")).header).toBe("max-age=15, public");
    expect(loads).toEqual(["shortened"]);
    expect((await ask("{ skipped }")).header).toBe("no-store");
  });

  it.each([
    ["the store", false],
    ["memory", undefined],
  ] as const)(
    "are not longer than its maxAge for a value from %s that has replaced one within the same instant",
    async (_where, memory) => {
      const clock = new FakeClock();
      const store = memoryStore({ clock });
      const options = { memory, store, testing: { clock } };
      const [writer, reader] = [createSite(options), createSite(options)];
      await writer.ask("{ plain }");
      await writer.ask("{ plain }", { isAdmin: true }, "REFRESH");
      for (const { ask } of [reader, reader, writer, writer])
        expect((await ask("{ plain }")).header).toBe("max-age=60, public");
      expect([writer.loads.length, reader.loads.length]).toEqual([2, 0]);
    },
  );

  it("repeats the hint of a load on hits, lowered to the remaining freshness", async () => {
    const { ask, clock, loads } = createSite();
    expect((await ask("{ hinted }")).header).toBe("max-age=40, public");
    await clock.advance(10_000);
    expect((await ask("{ hinted }")).header).toBe("max-age=40, public");
    await clock.advance(30_000);
    expect((await ask("{ hinted }")).header).toBe("max-age=20, public");
    expect(loads).toEqual(["hinted"]);
  });

  it("keeps a PRIVATE hint private on hits", async () => {
    const { ask, loads } = createSite();
    for (const query of ["{ mine }", "{ narrowed }", "{ plain mine }"])
      for (let nth = 0; nth < 2; nth++) expect((await ask(query)).header).toMatch(/^max-age=\d+, private$/);
    expect((await ask("{ narrowed }")).header).toBe("max-age=30, private");
    expect(loads).toEqual(["mine", "narrowed", "plain"]);
  });

  it("does not announce a value as cacheable whose load has set a hint that is none", async () => {
    const typeDefs = "type Query { odd(maxAge: Float): Int @cached(maxAge: 60, jitter: 0) }";
    const odd = (_: unknown, { maxAge }: { maxAge: number }, __: unknown, { cacheControl }: Info): number => {
      cacheControl.setCacheHint({ maxAge: maxAge === 0 ? Number.NaN : maxAge });
      return 7;
    };
    const cache = createCache({ defaultScope: "PUBLIC", store: memoryStore() });
    const source = makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: { Query: { odd } } as never,
    });
    const server = new ApolloServer({ schema: applyCached(source, cache), plugins: [cachedPlugin(cache)] });
    for (const maxAge of [-1, 0]) {
      const ask = () => server.executeOperation({ query: `{ odd(maxAge: ${maxAge}) }` });
      await ask();
      await settle();
      const hit = await ask();
      expect(hit.http.headers.get("cache-control"), String(maxAge)).toBe("no-store");
    }
    await cache.close();
  });

  it("sends no-store for a value that is served stale", async () => {
    const { ask, clock } = createSite();
    await ask("{ hinted }");
    await clock.advance(61_000);
    expect((await ask("{ hinted }")).header).toBe("no-store");
    for (let nth = 0; nth < 3; nth++) await settle();
    expect((await ask("{ hinted }")).header).toMatch(/^max-age=(39|40), public$/);
  });

  it("sends no-store for a response with an error", async () => {
    const { ask } = createSite();
    for (let nth = 0; nth < 2; nth++) expect((await ask("{ plain broken }")).header).toBe("no-store");
  });
});

describe("cache overrides", () => {
  const admin = { isAdmin: true };

  it("neither reads nor stores values with BYPASS", async () => {
    const { ask, loads } = createSite();
    await ask("{ plain }");
    const { data, extensions } = await ask("{ plain }", { ...admin }, "BYPASS");
    expect(data).toEqual({ plain: 2 });
    expect(extensions).toEqual({ cached: { "Query.plain": { "bypassed(REQUESTED)": 1 } } });
    expect((await ask("{ plain }")).data).toEqual({ plain: 1 });
    expect(loads).toHaveLength(2);
  });

  it("loads values again and stores them for all callers with REFRESH", async () => {
    const { ask, loads } = createSite();
    await ask("{ plain }");
    const { data, extensions } = await ask("{ plain }", { ...admin }, "REFRESH");
    expect(data).toEqual({ plain: 2 });
    expect(extensions).toEqual({ cached: { "Query.plain": { loaded: 1 } } });
    expect((await ask("{ plain }")).data).toEqual({ plain: 2 });
    expect(loads).toHaveLength(2);
  });

  it("ignores overrides from callers that `allow` does not admit", async () => {
    const { ask, loads } = createSite();
    for (const cached of [undefined, "BYPASS", "REFRESH"])
      expect(await ask("{ plain }", {}, cached)).toMatchObject({ data: { plain: 1 }, extensions: undefined });
    expect(loads).toHaveLength(1);
  });

  it("applies cache.override to loaders on any server", async () => {
    const { cache } = createSite();
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
      'cache.override: expected "BYPASS" or "REFRESH", got "FORCE"',
    );
  });
});
