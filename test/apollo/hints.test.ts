import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { memoryStore, resultControl } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it } from "vitest";
import { apolloOf, askApollo, type Context, openSite, type SiteOptions } from "../responses/site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    hinted(n: Int): Int @cached(maxAge: 60, staleWhileRevalidate: 60)
    mine: Int @cached(maxAge: 60, scope: PUBLIC)
    narrowed: Int @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 500)
    plain: Int @cached(maxAge: 60) @cacheControl(maxAge: 500)
    broken: Int @cached(maxAge: 60) @cacheControl(maxAge: 500)
    shortened: Int @cached(maxAge: 60) @cacheControl(maxAge: 500)
    skipped: Int @cached(maxAge: 60) @cacheControl(maxAge: 500)
    movie(id: ID!): Movie @cacheControl(maxAge: 100)
    unhinted: Int
    dynamic: Int @cached(maxAge: 60) @cacheControl(maxAge: 100)
  }
  type Movie {
    id: ID!
    title: String!
    rating: Int @cached(maxAge: 60, staleWhileRevalidate: 60)
    mine: Int @cached(maxAge: 60, scope: PRIVATE)
    "From a PUBLIC loader."
    price: Int
    "From a PRIVATE loader."
    discount: Int
  }
`;

interface Info {
  readonly cacheControl: { setCacheHint(hint: object): void; readonly cacheHint: { restrict(hint: object): void } };
}

/** A server whose fields and loaders have caches of their own, and hints on some of the fields only. */
function createSite(options: Partial<SiteOptions> = {}) {
  const loads: string[] = [];
  const dynamicGate = gate();
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
      movie: (_: unknown, { id }: { id: string }) => ({ id, title: "Ran" }),
      unhinted: async (_: unknown, __: unknown, context: Context) => (await prices(context).load("1")) + 0,
      dynamic: async (_: unknown, __: unknown, ___: unknown, { cacheControl }: Info) => {
        await dynamicGate.passed;
        cacheControl.setCacheHint({ scope: "PRIVATE" });
        return 0;
      },
    },
    Movie: {
      rating: () => 5,
      mine: () => 6,
      price: ({ id }: { id: string }, _: unknown, context: Context) => prices(context).load(id),
      discount: ({ id }: { id: string }, _: unknown, context: Context) => discounts(context).load(id),
    },
  };
  const site = openSite({ typeDefs, resolvers, ...options });
  const batch = async (ids: readonly string[]): Promise<readonly number[]> => ids.map(Number);
  const prices = site.cache.loader({ name: "Price", maxAge: 20, staleWhileRevalidate: 100, batch });
  const discounts = site.cache.loader({ name: "Discount", maxAge: 200, scope: "PRIVATE", batch });
  const allow = ({ isAdmin }: Context): boolean => isAdmin === true;
  const server = apolloOf(site, { own: [cachedPlugin(site.cache, { allow })] });
  const ask = async (query: string, contextValue: Context = {}, cached?: unknown) => {
    const { data, extensions, http } = await askApollo(server, query, contextValue, { extensions: { cached } });
    return { data, extensions, header: http.headers.get("cache-control") };
  };
  const headerOf = async (query: string, context?: Context) => (await ask(query, context)).header;
  return { ...site, ask, headerOf, loads, dynamicGate };
}

describe("cache hints set by a load", () => {
  it("are lowered to the lifetime that the load has set for its result", async () => {
    const { clock, loads, headerOf } = createSite();
    expect(await headerOf("{ shortened }")).toBe("max-age=20, public");
    await clock.advance(5_000);
    expect(await headerOf("{ shortened }")).toBe("max-age=15, public");
    expect(loads).toEqual(["shortened"]);
    expect(await headerOf("{ skipped }")).toBe("no-store");
  });

  it.each([
    ["the store", false],
    ["memory", undefined],
  ] as const)(
    "are not longer than its maxAge for a value from %s that has replaced one within the same instant",
    async (_where, memory) => {
      const clock = new FakeClock();
      const store = memoryStore({ clock });
      const options = { store, clock, cache: { memory } };
      const [writer, reader] = [createSite(options), createSite(options)];
      await writer.ask("{ plain }");
      await writer.ask("{ plain }", { isAdmin: true }, "REFRESH");
      for (const { headerOf } of [reader, reader, writer, writer])
        expect(await headerOf("{ plain }")).toBe("max-age=60, public");
      expect([writer.loads.length, reader.loads.length]).toEqual([2, 0]);
    },
  );

  it("repeats the hint of a load on hits, lowered to the remaining freshness", async () => {
    const { clock, loads, headerOf } = createSite();
    expect(await headerOf("{ hinted }")).toBe("max-age=40, public");
    await clock.advance(10_000);
    expect(await headerOf("{ hinted }")).toBe("max-age=40, public");
    await clock.advance(30_000);
    expect(await headerOf("{ hinted }")).toBe("max-age=20, public");
    expect(loads).toEqual(["hinted"]);
  });

  it("keeps a PRIVATE hint private on hits", async () => {
    const { loads, headerOf } = createSite();
    for (const query of ["{ mine }", "{ narrowed }", "{ plain mine }"])
      for (let nth = 0; nth < 2; nth++) expect(await headerOf(query)).toMatch(/^max-age=\d+, private$/);
    expect(await headerOf("{ narrowed }")).toBe("max-age=30, private");
    expect(loads).toEqual(["mine", "narrowed", "plain"]);
  });

  it("does not announce a value as cacheable whose load has set a hint that is none", async () => {
    const odd = (_: unknown, { maxAge }: { maxAge: number }, __: unknown, { cacheControl }: Info): number => {
      cacheControl.setCacheHint({ maxAge: maxAge === 0 ? Number.NaN : maxAge });
      return 7;
    };
    const { ask } = createSite({
      typeDefs: "type Query { odd(maxAge: Float): Int @cached(maxAge: 60) }",
      resolvers: { Query: { odd } },
    });
    for (const maxAge of [-1, 0]) {
      await ask(`{ odd(maxAge: ${maxAge}) }`);
      expect((await ask(`{ odd(maxAge: ${maxAge}) }`)).header, String(maxAge)).toBe("no-store");
    }
  });

  it("sends no-store for a value that is served stale", async () => {
    const { ask, clock, headerOf } = createSite();
    await ask("{ hinted }");
    await clock.advance(61_000);
    expect(await headerOf("{ hinted }")).toBe("no-store");
    for (let nth = 0; nth < 3; nth++) await settle();
    expect(await headerOf("{ hinted }")).toMatch(/^max-age=(39|40), public$/);
  });

  it("sends no-store for a response with an error", async () => {
    const { headerOf } = createSite();
    for (let nth = 0; nth < 2; nth++) expect(await headerOf("{ plain broken }")).toBe("no-store");
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

describe("the Cache-Control of a response", () => {
  it("has the remaining freshness of a scalar below a parent with a hint, and is no-store if it is stale", async () => {
    const { headerOf, clock } = createSite();
    const query = "{ movie(id: 1) { rating } }";
    expect(await headerOf(query)).toBe("max-age=60, public");
    await clock.advance(15_000);
    expect(await headerOf(query)).toBe("max-age=45, public");
    expect(await headerOf("{ movie(id: 1) { title } }")).toBe("max-age=100, public");
    await clock.advance(46_000);
    expect(await headerOf(query)).toBe("no-store");
  });

  it("has the remaining freshness of what a loader has read, and is no-store if it is stale", async () => {
    const { headerOf, clock } = createSite();
    const query = "{ movie(id: 1) { price } }";
    expect(await headerOf(query)).toBe("max-age=20, public");
    await clock.advance(5_000);
    expect(await headerOf(query)).toBe("max-age=15, public");
    await clock.advance(16_000);
    expect(await headerOf(query)).toBe("no-store");
  });

  it("is private for every caller if a PRIVATE field or loader was read", async () => {
    const { headerOf } = createSite();
    const alice = { user: "alice" };
    for (let nth = 0; nth < 2; nth++) {
      expect(await headerOf("{ movie(id: 1) { mine } }", { ...alice })).toBe("max-age=60, private");
      expect(await headerOf("{ movie(id: 1) { discount } }", { ...alice })).toBe("max-age=100, private");
      expect(await headerOf("{ movie(id: 1) { discount price } }", { ...alice })).toBe("max-age=20, private");
    }
    expect(await headerOf("{ movie(id: 1) { discount } }")).toBe("max-age=100, private");
  });

  it("has the hint that a load has set for every alias of its field, on a load and on a hit", async () => {
    const { headerOf, clock } = createSite();
    for (const maxAge of [40, 40, 30]) {
      expect(await headerOf("{ a: hinted b: hinted c: hinted(n: 2) }")).toBe(`max-age=${maxAge}, public`);
      await clock.advance(15_000);
    }
  });

  it("has the scope that a load has set for every request that shares it, with a lease or without one", async () => {
    for (const mode of [undefined, "throws"] as const) {
      const clock = new FakeClock();
      const store = chaosStore(memoryStore({ clock }));
      const { headerOf, dynamicGate } = createSite({ store, clock });
      store.chaos.mode = mode;
      const headers = [headerOf("{ a: dynamic b: dynamic }"), headerOf("{ dynamic }"), headerOf("{ dynamic }")];
      await settle();
      dynamicGate.open();
      for (const header of await Promise.all(headers)) expect(header).toMatch(/, private$/);
    }
  });

  it("does not become cacheable because of what a field without a hint has read", async () => {
    const { headerOf } = createSite();
    expect(await headerOf("{ unhinted }")).toBe("no-store");
    expect(await headerOf("{ movie(id: 1) { title } unhinted }")).toBe("no-store");
  });
});

describe("extensions.cached", () => {
  it("reports the reads of loaders by their names", async () => {
    const { ask } = createSite();
    const query = "{ a: movie(id: 1) { price discount } b: movie(id: 2) { price } }";
    const bypassed = { "bypassed(NO_IDENTITY)": 1 };
    const traceOf = async (source: string, user = {}) =>
      (await ask(source, { isAdmin: true, ...user }, true)).extensions;
    expect(await traceOf(query)).toEqual({ cached: { Price: { loaded: 2 }, Discount: bypassed } });
    expect(await traceOf("{ movie(id: 1) { price discount rating } }", { user: "alice" })).toEqual({
      cached: { Price: { hit: 1 }, Discount: { loaded: 1 }, "Movie.rating": { loaded: 1 } },
    });
  });
});
