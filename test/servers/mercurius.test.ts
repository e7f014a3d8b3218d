import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import type { GraphQLResolveInfo } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedHooks } from "graphql-cached/mercurius";
import { mercurius } from "mercurius";
import { describe, expect, it } from "vitest";
import { serverContract } from "./contract.js";

describe("two processes of mercurius on one Redis", () => {
  const pair = serverContract("mercurius", { batches: true, persistsQueries: true, traces: true });

  it("end in peace when they are told to", async () => {
    expect(await pair().stop()).toEqual([0, 0]);
  });
});

describe("a query that graphql-jit has compiled", () => {
  const typeDefs = /* GraphQL */ `
    type Query {
      seen(n: Int): Int
      film: Film @cached(maxAge: 60, key: ["$selection"])
    }
    type Film { id: ID title(short: Boolean): String }
  `;

  async function site() {
    const cache = createCache();
    const seen: { readonly info: GraphQLResolveInfo; readonly isCompiled: boolean }[] = [];
    let films = 0;
    const resolvers = {
      Query: {
        seen: (_: unknown, { n }: { n?: number }, __: unknown, info: GraphQLResolveInfo) => {
          seen.push({ info, isCompiled: !/[\\/]graphql[\\/]execution[\\/]/.test(new Error().stack ?? "") });
          return n;
        },
        film: () => {
          films++;
          return { id: 7, title: "Alien" };
        },
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
    "%s has variable values of its own in each execution, by which the cache knows it",
    async (_, query, variables) => {
      const { app, seen, close } = await site();
      for (let nth = 0; nth < 4; nth++) await app.graphql(query, {}, variables);
      expect(seen.map(({ isCompiled }) => isCompiled)).toEqual([false, false, true, true, true, true, true, true]);
      const executions = seen.map(({ info }) => info.variableValues);
      expect(new Set(executions).size).toBe(4);
      for (let nth = 0; nth < 8; nth += 2) expect(executions[nth]).toBe(executions[nth + 1]);
      await close();
    },
  );

  it("has the same keys as one that is not, also where they are made of the selection", async () => {
    const { app, films, close } = await site();
    const query = "query ($short: Boolean) { film { ...F } } fragment F on Film { id title(short: $short) }";
    for (const short of [true, false, true, false]) await app.graphql(query, {}, { short });
    expect(films()).toBe(2);
    await close();
  });

  it("is traced over GET as well, where extensions are JSON in the address", async () => {
    const { app, close } = await site();
    const ask = async (extensions: string): Promise<{ readonly extensions?: unknown }> =>
      (await app.inject({ url: "/graphql", query: { query: "{ film { id } }", extensions } })).json();
    await ask("{}");
    expect((await ask('{"cached":true}')).extensions).toEqual({ cached: { "Query.film": { hit: 1 } } });
    await close();
  });
});
