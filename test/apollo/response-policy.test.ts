import { ApolloServer } from "@apollo/server";
import { chaosStore, FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";

interface Context {
  readonly userId?: string;
}

interface Info {
  readonly cacheControl: { setCacheHint(hint: object): void };
}

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query {
    movie(id: ID!): Movie @cacheControl(maxAge: 100)
    plain: Int
    hinted(n: Int): Int @cached(maxAge: 60)
    dynamic(n: Int): Int @cached(maxAge: 60) @cacheControl(maxAge: 100)
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

/** A server whose fields and loaders have caches of their own, and hints on some of the fields only. */
function createSite() {
  const clock = new FakeClock();
  const store = chaosStore(memoryStore({ clock }));
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store,
    testing: { clock },
    defaults: { earlyRefresh: 0, jitter: 0 },
    identify: ({ userId }) => userId,
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  const batch = async (ids: readonly string[]): Promise<readonly number[]> => ids.map(Number);
  const prices = cache.loader({ name: "Price", maxAge: 20, staleWhileRevalidate: 100, batch });
  const discounts = cache.loader({ name: "Discount", maxAge: 200, scope: "PRIVATE", batch });
  const dynamicGate = gate();
  const resolvers = {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => ({ id, title: "Ran" }),
      plain: async (_: unknown, __: unknown, context: Context) => (await prices(context).load("1")) + 0,
      hinted: (_: unknown, { n }: { n?: number }, __: unknown, { cacheControl }: Info) => {
        cacheControl.setCacheHint({ maxAge: 40 });
        return n ?? 0;
      },
      dynamic: async (_: unknown, { n }: { n?: number }, __: unknown, { cacheControl }: Info) => {
        await dynamicGate.passed;
        cacheControl.setCacheHint({ scope: "PRIVATE" });
        return n ?? 0;
      },
    },
    Movie: {
      rating: () => 5,
      mine: () => 6,
      price: ({ id }: { id: string }, _: unknown, context: Context) => prices(context).load(id),
      discount: ({ id }: { id: string }, _: unknown, context: Context) => discounts(context).load(id),
    },
  };
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as never }),
    cache,
  );
  const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache, { allow: () => true })] });
  const ask = async (query: string, contextValue: Context = {}) => {
    const response = await server.executeOperation({ query, extensions: { cached: true } }, { contextValue });
    await settle();
    const result = response.body.kind === "single" ? response.body.singleResult : undefined;
    return { ...result, header: response.http.headers.get("cache-control") };
  };
  const headerOf = async (query: string, context?: Context) => (await ask(query, context)).header;
  return { ask, headerOf, cache, clock, store, dynamicGate };
}

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
    const alice = { userId: "alice" };
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
      const { headerOf, store, dynamicGate } = createSite();
      store.chaos.mode = mode;
      const headers = [headerOf("{ a: dynamic b: dynamic }"), headerOf("{ dynamic }"), headerOf("{ dynamic }")];
      await settle();
      dynamicGate.open();
      for (const header of await Promise.all(headers)) expect(header).toMatch(/, private$/);
    }
  });

  it("does not become cacheable because of what a field without a hint has read", async () => {
    const { headerOf } = createSite();
    expect(await headerOf("{ plain }")).toBe("no-store");
    expect(await headerOf("{ movie(id: 1) { title } plain }")).toBe("no-store");
  });
});

describe("extensions.cached", () => {
  it("reports the reads of loaders by their names", async () => {
    const { ask } = createSite();
    const query = "{ a: movie(id: 1) { price discount } b: movie(id: 2) { price } }";
    const bypassed = { "bypassed(NO_IDENTITY)": 1 };
    expect((await ask(query)).extensions).toEqual({ cached: { Price: { loaded: 2 }, Discount: bypassed } });
    expect((await ask("{ movie(id: 1) { price discount rating } }", { userId: "alice" })).extensions).toEqual({
      cached: { Price: { hit: 1 }, Discount: { loaded: 1 }, "Movie.rating": { loaded: 1 } },
    });
  });
});
