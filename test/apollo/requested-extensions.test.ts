import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
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

const allow = ({ isAdmin }: Context): boolean => isAdmin;

function createSite() {
  const cache = createCache<Context>({ defaultScope: "PUBLIC" });
  onTestFinished(() => cache.close());
  let loads = 0;
  const schema = makeExecutableSchema({
    typeDefs: [cachedTypeDefs, "type Query { top: Int @cached(maxAge: 60) }"],
    resolvers: { Query: { top: () => ++loads } },
  });
  return { cache, schema: applyCached(schema, cache) };
}

type Ask = (cached: unknown, isAdmin?: boolean) => Promise<{ data?: unknown; extensions?: { cached?: unknown } }>;

const servers: Readonly<Record<string, () => Promise<Ask>>> = {
  "Apollo Server": async () => {
    const { cache, schema } = createSite();
    const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache, { allow })] });
    onTestFinished(() => server.stop());
    return async (cached, isAdmin = true) => {
      const request = { query: "{ top }", extensions: { cached } };
      const { body } = await server.executeOperation(request, { contextValue: { isAdmin } });
      return (body.kind === "single" ? body.singleResult : {}) as Awaited<ReturnType<Ask>>;
    };
  },
  "GraphQL Yoga": async () => {
    const { cache, schema } = createSite();
    const context = ({ request }: { request: Request }) => ({ isAdmin: request.headers.get("x-admin") === "true" });
    const yoga = createYoga<object, Context>({
      schema,
      context: context as never,
      plugins: [useCached(cache, { allow })],
    });
    return async (cached, isAdmin = true) => {
      const body = JSON.stringify({ query: "{ top }", extensions: { cached } });
      const headers = { "content-type": "application/json", "x-admin": String(isAdmin) };
      return (await yoga.fetch("http://yoga/graphql", { method: "POST", headers, body })).json();
    };
  },
  Mercurius: async () => {
    const { cache, schema } = createSite();
    const app = fastify();
    onTestFinished(() => app.close());
    const context = ({ headers }: { headers: Record<string, unknown> }) => ({ isAdmin: headers["x-admin"] === "true" });
    await app.register(mercurius, { schema, context: context as never });
    cachedHooks<Context>(app, cache, { allow });
    return async (cached, isAdmin = true) => {
      const payload = { query: "{ top }", extensions: { cached } };
      const headers = { "x-admin": String(isAdmin) };
      return (await app.inject({ method: "POST", url: "/graphql", headers, payload })).json();
    };
  },
};

describe.each(Object.entries(servers))(
  "extensions.cached with another value than those known, under %s",
  (name, start) => {
    it("is reported to an allowed caller, and has no other effect", async () => {
      const ask = await start();
      const known = name === "Apollo Server" ? 'true, "BYPASS" or "REFRESH"' : "true";
      for (const [value, given] of [
        ["refresh", '"refresh"'],
        [1, "1"],
        [{ trace: true }, "an object"],
      ]) {
        const { data, extensions } = await ask(value);
        expect(data).toEqual({ top: 1 });
        expect(extensions?.cached).toEqual({
          error: expect.stringContaining(`extensions.cached: expected ${known}, got ${given}`),
        });
      }
      if (name !== "Apollo Server")
        expect((await ask("REFRESH")).extensions?.cached).toEqual({
          error:
            'extensions.cached: expected true, got "REFRESH"; this server cannot override the cache by request, call cache.override(context, …)',
        });
    });

    it("is not reported to other callers, nor to callers who request nothing", async () => {
      const ask = await start();
      expect((await ask("refresh", false)).extensions?.cached).toBeUndefined();
      for (const nothing of [false, null, undefined]) expect((await ask(nothing)).extensions?.cached).toBeUndefined();
    });
  },
);
