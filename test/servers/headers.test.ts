import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import { GraphQLError } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";

interface Context {
  readonly isAdmin: boolean;
}
interface Headers {
  readonly status: string | null;
  readonly timing: string | null;
}
type Ask = (body: unknown, isAdmin?: boolean) => Promise<Headers>;

const allow = ({ isAdmin }: Context): boolean => isAdmin;

function createSite() {
  const clock = new FakeClock();
  const cache = createCache<Context>({
    testing: { clock },
    defaults: { jitter: 0, earlyRefresh: 0 },
    identify: () => undefined,
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  const load = async (value: unknown): Promise<unknown> => {
    await clock.advance(1_500);
    if (value === "broken") throw new GraphQLError("alice@example.com");
    return value;
  };
  const typeDefs = /* GraphQL */ `
    type Query {
      movie(id: ID!): ID @cached(maxAge: 60, staleWhileRevalidate: 60)
      me: Int @cached(maxAge: 60, scope: PRIVATE)
      once: Int @cached(maxAge: 0)
      free: Int
    }
  `;
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, typeDefs],
    resolvers: {
      Query: { movie: (_: unknown, { id }: { id: string }) => load(id), me: () => 1, once: () => 1, free: () => 1 },
    },
  });
  return { cache, clock, schema: applyCached(schema, cache) };
}

type Site = ReturnType<typeof createSite>;

const servers: Readonly<Record<string, (site: Site) => Promise<Ask>>> = {
  "Apollo Server": async ({ cache, schema }) => {
    const plugins = [cachedPlugin(cache, { allow })];
    const server = new ApolloServer<Context>({ schema, plugins, allowBatchedHttpRequests: true });
    await server.start();
    onTestFinished(() => server.stop());
    return async (body, isAdmin = true) => {
      const { headers } = await server.executeHTTPGraphQLRequest({
        httpGraphQLRequest: { method: "POST", headers: JSON_HEADERS as never, search: "", body },
        context: async () => ({ isAdmin }),
      });
      return { status: headers.get("cache-status") ?? null, timing: headers.get("server-timing") ?? null };
    };
  },
  "GraphQL Yoga": async ({ cache, schema }) => {
    const context = ({ request }: { request: Request }) => ({ isAdmin: request.headers.get("x-admin") === "true" });
    const plugins = [useCached(cache, { allow })];
    const yoga = createYoga<object, Context>({ schema, context: context as never, plugins, batching: true });
    return async (body, isAdmin = true) => {
      const headers = { "content-type": "application/json", "x-admin": String(isAdmin) };
      const request = { method: "POST", headers, body: JSON.stringify(body) };
      const response = await yoga.fetch("http://yoga/graphql", request);
      await response.text();
      return { status: response.headers.get("cache-status"), timing: response.headers.get("server-timing") };
    };
  },
  Mercurius: async ({ cache, schema }) => {
    const app = fastify();
    onTestFinished(() => app.close());
    const context = ({ headers }: { headers: Record<string, unknown> }) => ({ isAdmin: headers["x-admin"] === "true" });
    await app.register(mercurius, { schema, context: context as never, allowBatchedQueries: true });
    cachedHooks<Context>(app, cache, { allow });
    return async (body, isAdmin = true) => {
      const request = { method: "POST", url: "/graphql", headers: { "x-admin": String(isAdmin) } } as const;
      const { headers } = await app.inject({ ...request, payload: body as object });
      return {
        status: (headers["cache-status"] as string | undefined) ?? null,
        timing: (headers["server-timing"] as string | undefined) ?? null,
      };
    };
  },
};
const JSON_HEADERS = new Map([["content-type", "application/json"]]);

const traced = (query: string, cached: unknown = true) => ({ query, extensions: { cached } });

describe.each(Object.entries(servers))("the headers of a response of %s", (name, start) => {
  async function startServer() {
    const site = createSite();
    const serve = await start(site);
    const ask: Ask = async (body, isAdmin) => {
      const headers = await serve(body, isAdmin);
      await settle();
      return headers;
    };
    return { ...site, ask };
  }

  it("say whether it was a hit, and for how long it is fresh", async () => {
    const { ask, clock } = await startServer();
    expect(await ask(traced("{ movie(id: 7) }"))).toEqual({
      status: 'graphql-cached; fwd=miss; ttl=58; stored; detail="loaded 1"',
      timing: 'Query.movie;dur=1500.0;desc="loaded 1"',
    });
    await clock.advance(10_000);
    expect(await ask(traced("{ movie(id: 7) }"))).toEqual({
      status: 'graphql-cached; hit; ttl=48; detail="hit 1"',
      timing: 'Query.movie;desc="hit 1"',
    });
  });

  it("summarize the fields of a response, the least fresh one deciding", async () => {
    const { ask, clock } = await startServer();
    await ask(traced("{ movie(id: 7) }"));
    await clock.advance(10_000);
    expect(await ask(traced("{ a: movie(id: 7) b: movie(id: 8) free }"))).toEqual({
      status: 'graphql-cached; fwd=partial; ttl=47; stored; detail="hit 1, loaded 1"',
      timing: 'Query.movie;dur=1500.0;desc="hit 1, loaded 1"',
    });
    expect((await ask(traced("{ movie(id: 7) me }"))).status).toBe(
      'graphql-cached; fwd=partial; detail="bypassed(NO_IDENTITY) 1, hit 1"',
    );
    expect((await ask(traced("{ me }"))).status).toBe('graphql-cached; fwd=bypass; detail="bypassed(NO_IDENTITY) 1"');
    await clock.advance(60_000);
    expect((await ask(traced("{ movie(id: 7) }"))).status).toBe('graphql-cached; hit; ttl=0; detail="stale 1"');
  });

  it("do not say that a failed load was stored", async () => {
    const { ask } = await startServer();
    expect((await ask(traced('{ movie(id: "broken") }'))).status).toBe(
      'graphql-cached; fwd=miss; ttl=0; detail="loaded 1"',
    );
  });

  it("are there only for callers that `allow` admits, on request, for one operation that reads the cache", async () => {
    const { ask } = await startServer();
    const none = { status: null, timing: null };
    await ask(traced("{ movie(id: 7) }"));
    expect(await ask(traced("{ movie(id: 7) }"), false)).toEqual(none);
    expect(await ask({ query: "{ movie(id: 7) }" })).toEqual(none);
    expect(await ask(traced("{ movie(id: 7) }", "everything"))).toEqual(none);
    expect(await ask(traced("{ free }"))).toEqual(none);
    expect(await ask([traced("{ movie(id: 7) }"), traced("{ movie(id: 7) }")])).toEqual(none);
  });

  if (name === "Apollo Server")
    it("say that the request itself asked for the source", async () => {
      const { ask } = await startServer();
      await ask(traced("{ movie(id: 7) }"));
      expect((await ask(traced("{ movie(id: 7) }", "REFRESH"))).status).toBe(
        'graphql-cached; fwd=request; ttl=58; stored; detail="loaded 1"',
      );
      expect((await ask(traced("{ movie(id: 7) }", "BYPASS"))).status).toBe(
        'graphql-cached; fwd=request; detail="bypassed(REQUESTED) 1"',
      );
    });
});
