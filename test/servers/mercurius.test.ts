import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import type { GraphQLResolveInfo } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedHooks } from "graphql-cached/mercurius";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";
import { serverContract } from "./contract.js";

describe("two processes of mercurius on one Redis", () => {
  const pair = serverContract("mercurius", { batches: true, persistsQueries: true, traces: true });

  it("exits with code 0 on SIGTERM", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("queries compiled by graphql-jit", () => {
  const typeDefs = /* GraphQL */ `
    type Query {
      seen(n: Int): Int
      film: Film @cached(maxAge: 60, key: ["$selection"])
    }
    type Film { id: ID title(short: Boolean): String }
  `;

  async function startSite() {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const seen: { readonly info: GraphQLResolveInfo; readonly isCompiled: boolean }[] = [];
    let films = 0;
    const resolvers = {
      Query: {
        seen: (_: unknown, { n }: { n?: number }, __: unknown, info: GraphQLResolveInfo) => {
          seen.push({ info, isCompiled: !/[\\/]graphql[\\/]execution[\\/]/.test(new Error().stack ?? "") });
          return n;
        },
        film: () => (films++, { id: 7, title: "Alien" }),
      },
    };
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
    const app = fastify();
    await app.register(mercurius, { schema, jit: 1 });
    cachedHooks(app, cache, { allow: () => true });
    const close = async (): Promise<void> => {
      await app.close();
      await cache.close();
    };
    return { app, cache, seen, films: () => films, close };
  }

  it.each([
    ["without variables", "{ one: seen other: seen }", undefined],
    ["with variables", "query ($n: Int) { one: seen(n: $n) other: seen }", { n: 1 }],
  ])(
    "gives each execution of a compiled query its own variableValues, which identify it: %s",
    async (_, query, variables) => {
      const { app, seen, close } = await startSite();
      for (let nth = 0; nth < 4; nth++) await app.graphql(query, {}, variables);
      expect(seen.map(({ isCompiled }) => isCompiled)).toEqual([false, false, true, true, true, true, true, true]);
      const executions = seen.map(({ info }) => info.variableValues);
      expect(new Set(executions).size).toBe(4);
      for (let nth = 0; nth < 8; nth += 2) expect(executions[nth]).toBe(executions[nth + 1]);
      await close();
    },
  );

  it("uses the same keys for compiled and uncompiled queries, selections included", async () => {
    const { app, films, close } = await startSite();
    const query = "query ($short: Boolean) { film { ...F } } fragment F on Film { id title(short: $short) }";
    for (const short of [true, false, true, false]) await app.graphql(query, {}, { short });
    expect(films()).toBe(2);
    await close();
  });

  it("reports extensions.cached over GET, where extensions are JSON in the URL", async () => {
    const { app, close } = await startSite();
    const ask = async (extensions: string): Promise<{ readonly extensions?: unknown }> =>
      (await app.inject({ url: "/graphql", query: { query: "{ film { id } }", extensions } })).json();
    await ask("{}");
    expect((await ask('{"cached":true}')).extensions).toEqual({ cached: { "Query.film": { hit: 1 } } });
    await close();
  });
});

describe("the loaders of Mercurius", () => {
  const typeDefs = /* GraphQL */ `
    type Query { film(id: Int): Film @cached(maxAge: 60) other(id: Int): Film }
    type Film { id: Int director: String @cached(maxAge: 60) }
  `;

  function createSite() {
    const cache = createCache({ defaultScope: "PUBLIC", logger: { info: () => undefined, warn: () => undefined } });
    onTestFinished(() => cache.close());
    const resolvers = {
      Query: { film: () => ({ id: 7 }), other: () => ({ id: 8 }) },
      Film: { director: () => "nobody" },
    };
    const plain = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });
    const app = fastify();
    onTestFinished(() => app.close());
    return { cache, plain, app };
  }
  const director = async (queries: readonly unknown[]) => queries.map(() => "Lang");

  it("are refused at start-up for a cached field, whose resolver they replace", async () => {
    const { cache, plain, app } = createSite();
    const loaders = { Film: { director }, Query: { other: async () => [null] } };
    await app.register(mercurius, { schema: applyCached(plain, cache), loaders });
    expect(() => cachedHooks(app, cache)).toThrow(
      "cachedHooks: expected cached fields without `loaders` of Mercurius, got one for `Film.director`, which replaces the cached resolver; remove it and use cache.loader in the resolver, or remove `@cached`",
    );
  });

  it("are refused for a cached field when they are defined later", async () => {
    const { cache, plain, app } = createSite();
    await app.register(mercurius, { schema: applyCached(plain, cache) });
    cachedHooks(app, cache);
    expect(() => app.graphql.defineLoaders({ Film: { director } } as never)).toThrow("got one for `Film.director`");
    app.graphql.defineLoaders({ Query: { other: async () => [{ id: 9 }] } } as never);
    const { data } = (
      await app.inject({ url: "/graphql", query: { query: "{ other { id } film { director } }" } })
    ).json();
    expect(data).toEqual({ other: { id: 9 }, film: { director: "nobody" } });
  });

  it("are cached if the cache is applied to the schema that has them", async () => {
    const { cache, plain, app } = createSite();
    let loads = 0;
    const loaders = { Film: { director: async (queries: readonly unknown[]) => queries.map(() => `Lang ${++loads}`) } };
    await app.register(mercurius, { schema: plain, loaders: loaders as never });
    app.graphql.replaceSchema(applyCached(app.graphql.schema, cache));
    cachedHooks(app, cache);
    for (let request = 0; request < 3; request++) {
      const { data } = (await app.inject({ url: "/graphql", query: { query: "{ film { director } }" } })).json();
      expect(data).toEqual({ film: { director: "Lang 1" } });
    }
    expect(loads).toBe(1);
  });
});
