import { ApolloServer, type ApolloServerPlugin, type GraphQLRequestListener } from "@apollo/server";
import { gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import { execute, type GraphQLFieldResolver, type GraphQLResolveInfo, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished, vi } from "vitest";

interface Context {
  readonly userId?: string;
}

const typeDefs = /* GraphQL */ `
  enum CacheControlScope { PUBLIC PRIVATE }
  directive @cacheControl(maxAge: Int, scope: CacheControlScope, inheritMaxAge: Boolean) on FIELD_DEFINITION | OBJECT | INTERFACE | UNION
  type Query {
    top: Int @cached(maxAge: 60, jitter: 0) @cacheControl(maxAge: 600)
    me: String @cached(maxAge: 60, jitter: 0, scope: PRIVATE) @cacheControl(maxAge: 600)
    plain: Int @cached(maxAge: 60)
    movie(id: ID!): Int @cached(maxAge: 60)
  }
`;

function createSite() {
  const cache = createCache<Context>({ defaultScope: "PUBLIC", identify: ({ userId }) => userId });
  onTestFinished(() => cache.close());
  const isAdmin = ({ userId }: Context): boolean => userId === "admin";
  const resolvers = {
    Query: {
      top: () => 1,
      me: (_: unknown, __: unknown, { userId }: Context) => userId,
      plain: () => 2,
      movie: () => 3,
    },
  };
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
    resolvers: [resolvers, inspectionResolvers(cache, { allow: isAdmin }) as unknown as IResolvers],
  });
  const server = new ApolloServer<Context>({
    schema: applyCached(schema, cache),
    plugins: [cachedPlugin(cache, { allow: isAdmin })],
  });
  const ask = async (query: string, contextValue: Context = {}, extensions: Record<string, unknown> = {}) => {
    const response = await server.executeOperation({ query, extensions }, { contextValue });
    const result = response.body.kind === "single" ? response.body.singleResult : undefined;
    return { ...result, cacheControl: response.http.headers.get("cache-control") };
  };
  return { ask, server, cache };
}

describe("the Apollo plugin", () => {
  it("lets an execution forget what it has read once its response is complete, unless that has further parts", async () => {
    const outcomes: string[] = [];
    let stored = 0;
    const cache = createCache({
      defaultScope: "PUBLIC",
      memory: false,
      onEvent: (event) => {
        if (event.name === "entry.served") outcomes.push(event.outcome);
        if (event.name === "write.finished") stored++;
      },
    });
    let info: GraphQLResolveInfo | undefined;
    const other: GraphQLFieldResolver<unknown, unknown> = (_source, _args, _context, own) => {
      info = own;
      return 2;
    };
    const resolvers = { Query: { top: () => 1, other } };
    const sdl = "type Query { top: Int @cached(maxAge: 60) other: Int }";
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers }), cache);
    const contextValue = {};
    const start = cachedPlugin(cache).requestDidStart?.({ contextValue, request: {} } as never);
    const listener = (await start) as GraphQLRequestListener<object>;
    const respond = (kind: string) =>
      listener.willSendResponse?.({ contextValue, response: { body: { kind } } } as never);
    /** A field of the same execution, which is executed later. */
    const readLater = async () =>
      schema
        .getQueryType()
        ?.getFields()
        .top?.resolve?.({}, {}, contextValue, info as GraphQLResolveInfo);
    expect(await execute({ schema, contextValue, document: parse("{ top other }") })).toEqual({
      data: { top: 1, other: 2 },
    });
    await vi.waitFor(() => expect(stored).toBe(1));
    expect(await readLater()).toBe(1);
    await respond("incremental");
    expect(await readLater()).toBe(1);
    expect(outcomes).toEqual(["loaded"]);
    await respond("single");
    expect(await readLater()).toBe(1);
    expect(outcomes).toEqual(["loaded", "hit"]);
    await cache.close();
  });

  it("lets no execution forget what it has read while another request with the same context ends", async () => {
    const outcomes: string[] = [];
    const cache = createCache({
      defaultScope: "PUBLIC",
      onEvent: (event) => void (event.name === "entry.served" && outcomes.push(event.outcome)),
    });
    const later = gate();
    const resolvers = {
      Query: { first: () => ({}), later: async () => (await later.passed, {}) },
      Movie: { stars: () => 5 },
    };
    const sdl = "type Query { first: Movie later: Movie } type Movie { stars: Int @cached(maxAge: 60, key: []) }";
    const server = new ApolloServer({
      schema: applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl], resolvers }), cache),
      plugins: [cachedPlugin(cache)],
    });
    const contextValue = {};
    const ask = async (query: string) => (await server.executeOperation({ query }, { contextValue })).body;
    const slow = ask("{ first { stars } later { stars } }");
    expect(await ask("{ first { stars } }")).toMatchObject({ singleResult: { data: { first: { stars: 5 } } } });
    later.open();
    expect(await slow).toMatchObject({ singleResult: { data: { first: { stars: 5 }, later: { stars: 5 } } } });
    expect(outcomes).toHaveLength(2);
    await server.stop();
    await cache.close();
  });

  it("lowers a cache hint to the remaining freshness of the value", async () => {
    const { ask } = createSite();
    await ask("{ top }");
    const maxAge = Number(/max-age=(\d+), public/.exec((await ask("{ top }")).cacheControl ?? "")?.[1]);
    expect(maxAge).toBeGreaterThan(0);
    expect(maxAge).toBeLessThanOrEqual(60);
  });

  it("sets the cache hint of a private value to PRIVATE", async () => {
    const { ask } = createSite();
    expect((await ask("{ me }", { userId: "alice" })).cacheControl).toMatch(/max-age=\d+, private/);
    expect((await ask("{ me }")).cacheControl).toMatch(/max-age=\d+, private/);
  });

  it("adds no cache hint to a field without one", async () => {
    const { ask } = createSite();
    expect((await ask("{ plain }")).cacheControl).toBe("no-store");
  });

  it("reports the outcome of each field in extensions.cached to allowed callers on request", async () => {
    const { ask } = createSite();
    const admin = { userId: "admin" };
    expect((await ask("{ top plain }", { ...admin }, { cached: true })).extensions).toEqual({
      cached: { "Query.top": { loaded: 1 }, "Query.plain": { loaded: 1 } },
    });
    expect((await ask("{ top a: movie(id: 1) b: movie(id: 2) }", { ...admin }, { cached: true })).extensions).toEqual({
      cached: { "Query.top": { hit: 1 }, "Query.movie": { loaded: 2 } },
    });
    expect((await ask("{ top }", { ...admin })).extensions).toBeUndefined();
    expect((await ask("{ top }", {}, { cached: true })).extensions).toBeUndefined();
  });

  it("keeps the extensions that other plugins add to the response at the same time", async () => {
    const cache = createCache<Context>({ defaultScope: "PUBLIC", identify: ({ userId }) => userId });
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] }), cache);
    const other: ApolloServerPlugin<Context> = {
      async requestDidStart() {
        return {
          async willSendResponse({ response: { body } }) {
            if (body.kind === "single") body.singleResult.extensions = { ...body.singleResult.extensions, cost: 1 };
          },
        };
      },
    };
    const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache, { allow: () => true }), other] });
    onTestFinished(async () => {
      await server.stop();
      await cache.close();
    });
    const { body } = await server.executeOperation(
      { query: "{ plain }", extensions: { cached: true } },
      { contextValue: {} },
    );
    expect(body).toMatchObject({ singleResult: { extensions: { cached: { "Query.plain": { loaded: 1 } }, cost: 1 } } });
  });

  it("waits for loads in progress when the server stops, and leaves the cache open", async () => {
    const { ask, server, cache } = createSite();
    await ask("{ top }");
    await server.stop();
    await expect(cache.invalidate({ coordinate: "Query.top" })).resolves.toBeUndefined();
  });
});

describe("the cache-inspection query", () => {
  const query = `{ cacheInspection {
    counts { total { sinceStart { reads hit loaded bypassed loads } } fields { coordinate sinceStart { reads hit bypasses { reason reads } } } }
    entry(coordinate: "Query.movie", args: { id: 7 }) { state negative lease { process } reasons { reason } }
  } }`;

  it("rejects inspection queries from callers that `allow` does not admit", async () => {
    const { ask } = createSite();
    const { errors, data } = await ask(query, { userId: "alice" });
    expect(errors?.[0]?.extensions?.code).toBe("CACHED_INSPECTION_DENIED");
    expect(data).toBeNull();
  });

  it("counts outcomes per field and shows the state of an entry", async () => {
    const { ask } = createSite();
    await ask("{ movie(id: 7) }");
    await ask("{ movie(id: 7) me }");
    const { data, errors } = await ask(query, { userId: "admin" });
    expect(errors).toBeUndefined();
    expect(data).toMatchObject({
      cacheInspection: {
        counts: {
          total: { sinceStart: { reads: 3, hit: 1, loaded: 1, bypassed: 1, loads: 1 } },
          fields: [
            { coordinate: "Query.me", sinceStart: { bypasses: [{ reason: "NO_IDENTITY", reads: 1 }] } },
            { coordinate: "Query.movie", sinceStart: { reads: 2, hit: 1 } },
          ],
        },
        entry: { state: "VALUE", negative: false, lease: null, reasons: [] },
      },
    });
  });

  it("shows that there is no entry and rejects a field that is not cached", async () => {
    const { ask } = createSite();
    expect((await ask(query, { userId: "admin" })).data).toMatchObject({
      cacheInspection: { entry: { state: "ABSENT" } },
    });
    const { errors } = await ask('{ cacheInspection { entry(coordinate: "Query.nope") { state } } }', {
      userId: "admin",
    });
    expect(errors?.[0]?.message).toContain("`Query.nope`: expected a cached field");
  });
});
