import responseCachePlugin from "@apollo/server-plugin-response-cache";
import { gate, settle } from "@graphql-cached/testing";
import { buildSchema, parse } from "graphql";
import { createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { apolloOf, askApollo, type Context, openSite, SERVERS, type ServerName } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    cached: Int @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
    plain: Int @cacheControl(maxAge: 60)
    unhinted: Parent @cached(maxAge: 60, scope: PUBLIC)
    hung: Int
  }
  type Parent { id: ID! part: Int resolved: Int }
`;

function open(server: ServerName) {
  let executions = 0;
  const next = (): number => ++executions;
  const held = gate();
  const resolvers = {
    Query: {
      cached: next,
      plain: next,
      unhinted: () => ({ id: 1, part: next(), resolved: 0 }),
      hung: async () => {
        next();
        await held.passed;
        return 1;
      },
    },
    Parent: { resolved: (_: unknown, __: unknown, { user }: Context) => user?.length ?? 0 },
  };
  const site = openSite({ typeDefs, resolvers, server });
  const dataOf = async (query: string, context: Context = {}) => (await site.ask(query, context)).data;
  return { ...site, dataOf, held, executions: () => executions };
}

describe.each(SERVERS)("the response cache on %s", (server) => {
  it("neither serves nor stores the response of a request with the override BYPASS", async () => {
    const { dataOf } = open(server);
    await dataOf("{ plain }");
    expect(await dataOf("{ plain }", { override: "BYPASS" })).toEqual({ plain: 2 });
    expect(await dataOf("{ plain }")).toEqual({ plain: 1 });
  });

  it("executes a request with the override REFRESH, and stores its response", async () => {
    const { dataOf } = open(server);
    await dataOf("{ cached plain }");
    const data = await dataOf("{ cached plain }", { override: "REFRESH" });
    expect(Object.values(data ?? {}).sort()).toEqual([3, 4]);
    expect(await dataOf("{ cached plain }")).toEqual(data);
  });

  it("serves no response with a field that is switched off, and serves it again once the field is on", async () => {
    const { dataOf, cache } = open(server);
    await dataOf("{ cached plain }");
    cache.setMode("off", "Query.cached");
    expect(await dataOf("{ cached plain }")).toEqual({ cached: 3, plain: 4 });
    cache.setMode("on", "Query.cached");
    await dataOf("{ cached plain }");
    expect(await dataOf("{ cached plain }")).toEqual(await dataOf("{ cached plain }"));
  });

  it("serves no response while a loader is switched off, since nobody knows which of them have its values", async () => {
    const { dataOf, cache } = open(server);
    cache.loader<number, number>({ name: "Price", maxAge: 60, batch: async (ids) => ids });
    for (const _ of [1, 2]) expect(await dataOf("{ plain }")).toEqual({ plain: 1 });
    cache.setMode("off", "Price");
    expect(await dataOf("{ plain }")).toEqual({ plain: 2 });
    cache.setMode("on", "Price");
    expect(await dataOf("{ plain }")).toEqual({ plain: 1 });
  });

  it("can be cleared, and switched off and on again, under the name of its entries or with all of the cache", async () => {
    const { dataOf, cache } = open(server);
    await dataOf("{ plain }");
    await cache.invalidate({ coordinate: "responses" });
    expect(await dataOf("{ plain }")).toEqual({ plain: 2 });
    for (const [nth, coordinate] of ["responses", undefined].entries()) {
      cache.setMode("off", coordinate);
      expect(await dataOf("{ plain }")).toEqual({ plain: 3 + nth });
      cache.setMode("on", coordinate);
      expect(await dataOf("{ plain }")).toEqual({ plain: 2 });
    }
  });

  it("never lets the requests of an operation that is not cacheable wait for each other", async () => {
    const { ask, executions, held } = open(server);
    const asked = [1, 2, 3].map(() => ask("{ hung }"));
    await settle();
    expect(executions()).toBe(3);
    held.open();
    await Promise.all(asked);
  });

  it("executes the operation if the store is away, once for those who ask meanwhile", async () => {
    const { ask, executions, cache } = open(server);
    await ask("{ plain }");
    await cache.close();
    for (const _ of [1, 2]) await ask("{ plain }");
    expect(executions()).toBe(3);
  });
});

describe.each(["GraphQL Yoga", "cache.execute"] as const)("without hints, the response cache on %s", (server) => {
  it("takes the policy of a cached field as its hint, with what its value contains", async () => {
    const { dataOf } = open(server);
    for (const fields of ["id part", "part id"])
      expect(await dataOf(`{ unhinted { ${fields} } }`)).toEqual({ unhinted: { id: "1", part: 1 } });
  });

  it("does not keep what a resolver below a cached field returns, which can depend on the caller", async () => {
    const { dataOf } = open(server);
    for (const user of ["ann", "magnus"])
      expect(await dataOf("{ unhinted { resolved } }", { user })).toEqual({ unhinted: { resolved: user.length } });
  });
});

describe("the options of the response cache", () => {
  it.each([
    [
      { ttl: 5 },
      "`ttl`: unknown option; expected one of `scope`, `guests`, `maxAge`, `staleWhileRevalidate`, `staleIfError`, `key`, `tags`, `maxOperations`, `extensions`; did you mean `maxAge`, in seconds?",
    ],
    [{ maxAge: 0 }, "`maxAge`: expected an integer of at least 1 (seconds), got 0"],
    [{ key: ["$args.id"] }, 'expected paths into the context such as $context.locale, got "$args.id"'],
    [{ extensions: "cost" }, "expected an array of names of extensions, got"],
    [5, "`responses`: expected true, false or an object of options, got 5"],
  ])("are refused with what was expected: %j", (responses, message) => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    expect(() => cachedPlugin(cache, { responses: responses as never })).toThrow(message);
    expect(() => useCached(cache, { responses: responses as never })).toThrow(message);
  });

  it.each([
    [{}, "cache.execute: `options`.`scope`: expected PUBLIC if"],
    [{ ttl: 5 }, "cache.execute: `options`: `ttl`: unknown option"],
    [[], "cache.execute: expected an object of options, got an array"],
    [true, "cache.execute: expected an object of options, got true"],
  ])("have the name of an argument of cache.execute where they are that: %j", async (options, message) => {
    const cache = createCache();
    onTestFinished(() => cache.close());
    const args = { schema: buildSchema("type Query { a: Int }"), document: parse("{ a }"), contextValue: {} };
    await expect(cache.execute(args, options as never)).rejects.toThrow(message);
  });
});

describe("the response cache beside others", () => {
  it.each([0, 1])("reports Apollo's response cache, whichever comes first (%i)", async (first) => {
    const site = open("cache.execute");
    const apollo = apolloOf(site, { [first === 0 ? "after" : "before"]: [responseCachePlugin()] });
    for (let time = 0; time < 3; time++) {
      await askApollo(apollo, "{ plain }");
      await site.cache.clear();
    }
    expect(site.lines.filter((line) => line.includes("expected to be the only response cache"))).toHaveLength(1);
  });

  it("is refused by Mercurius, which has no hook that can answer an operation", () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    expect(() => cachedHooks({} as never, cache, { responses: true } as never)).toThrow(
      "cachedHooks: `responses`: Mercurius has no hook that can answer an operation before it is executed",
    );
  });
});
