import fastify from "fastify";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";
import { apolloOf, askApollo, type Context, openSite, postYoga, yogaOf } from "../responses/site.js";

const allow = ({ isAdmin }: Context): boolean => isAdmin === true;

function createSite() {
  let loads = 0;
  const price = (_: unknown, __: unknown, context: Context) => prices(context).load(7);
  const site = openSite({
    typeDefs: "type Query { top: Int @cached(maxAge: 60) price: Int }",
    resolvers: { Query: { top: () => ++loads, price } },
  });
  const prices = site.cache.loader({ name: "Price", maxAge: 60, batch: async (ids: readonly number[]) => ids });
  return site;
}

type Ask = (
  cached: unknown,
  isAdmin?: boolean,
  query?: string,
) => Promise<{ data?: unknown; extensions?: { cached?: unknown } }>;

const servers: Readonly<Record<string, () => Promise<Ask>>> = {
  "Apollo Server": async () => {
    const site = createSite();
    const server = apolloOf(site, { own: [cachedPlugin(site.cache, { allow })] });
    return async (cached, isAdmin = true, query = "{ top }") =>
      askApollo(server, query, { isAdmin }, { extensions: { cached } });
  },
  "GraphQL Yoga": async () => {
    const site = createSite();
    const context = ({ request }: { request: Request }) => ({ isAdmin: request.headers.get("x-admin") === "true" });
    const yoga = yogaOf(site, { context, own: [useCached(site.cache, { allow })] });
    return async (cached, isAdmin = true, query = "{ top }") =>
      JSON.parse(await postYoga(yoga, { query, extensions: { cached } }, { "x-admin": String(isAdmin) }));
  },
  Mercurius: async () => {
    const { cache, schema } = createSite();
    const app = fastify();
    onTestFinished(() => app.close());
    const context = ({ headers }: { headers: Record<string, unknown> }) => ({ isAdmin: headers["x-admin"] === "true" });
    await app.register(mercurius, { schema, context: context as never });
    cachedHooks<Context>(app, cache, { allow });
    return async (cached, isAdmin = true, query = "{ top }") => {
      const payload = { query, extensions: { cached } };
      const headers = { "x-admin": String(isAdmin) };
      return (await app.inject({ method: "POST", url: "/graphql", headers, payload })).json();
    };
  },
};

describe.each(Object.entries(servers))("extensions.cached under %s", (name, start) => {
  it("with another value than those known is reported to an allowed caller, and has no other effect", async () => {
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

  it("reports what loaders did", async () => {
    const ask = await start();
    expect((await ask(true, true, "{ price }")).extensions?.cached).toEqual({ Price: { loaded: 1 } });
  });

  it("is absent for other callers, and for callers who request nothing", async () => {
    const ask = await start();
    expect((await ask("refresh", false)).extensions?.cached).toBeUndefined();
    for (const nothing of [false, null, undefined]) expect((await ask(nothing)).extensions?.cached).toBeUndefined();
  });
});
