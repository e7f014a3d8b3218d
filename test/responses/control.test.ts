import { ApolloServer } from "@apollo/server";
import responseCachePlugin from "@apollo/server-plugin-response-cache";
import { gate, settle } from "@graphql-cached/testing";
import { buildSchema, parse } from "graphql";
import { createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSite, SERVERS, type SiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  directive @auth on FIELD_DEFINITION
  type Query {
    cached: Int @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
    plain: Int @cacheControl(maxAge: 60)
    guarded: Int @auth @cacheControl(maxAge: 60)
    unhinted: Parent @cached(maxAge: 60, scope: PUBLIC)
    hung: Int @cacheControl(maxAge: 60)
    checked: Int @auth @cached(maxAge: 60, scope: PUBLIC) @cacheControl(maxAge: 60)
  }
  type Parent { id: ID! part: Int resolved: Int }
`;

function open(server: SiteOptions["server"], options: Partial<SiteOptions> = {}) {
  let executions = 0;
  const lines: string[] = [];
  const next = (): number => ++executions;
  const held = gate();
  const resolvers = {
    Query: {
      cached: next,
      plain: next,
      guarded: next,
      checked: next,
      unhinted: () => ({ id: 1, part: next(), resolved: 0 }),
      hung: async () => {
        next();
        await held.passed;
        return 1;
      },
    },
    Parent: { resolved: (_: unknown, __: unknown, { user }: { user?: string }) => user?.length ?? 0 },
  };
  const logger = { info: (line: string) => lines.push(line), warn: (line: string) => lines.push(line) };
  const cache = { logger, ...options.cache };
  return { ...openSite({ typeDefs, resolvers, server, ...options, cache }), held, lines, executions: () => executions };
}

describe.each(SERVERS)("the response cache on %s", (server) => {
  it("neither serves nor stores the response of a request with the override BYPASS", async () => {
    const site = open(server);
    await site.ask("{ plain }");
    expect((await site.ask("{ plain }", { override: "BYPASS" })).data).toEqual({ plain: 2 });
    expect((await site.ask("{ plain }")).data).toEqual({ plain: 1 });
  });

  it("executes a request with the override REFRESH, and stores its response", async () => {
    const site = open(server);
    await site.ask("{ cached plain }");
    const { data } = await site.ask("{ cached plain }", { override: "REFRESH" });
    expect(Object.values(data ?? {}).sort()).toEqual([3, 4]);
    expect((await site.ask("{ cached plain }")).data).toEqual(data);
  });

  it("serves no response with a field that is switched off, and serves it again once the field is on", async () => {
    const { ask, cache } = open(server);
    await ask("{ cached plain }");
    cache.setMode("off", "Query.cached");
    expect((await ask("{ cached plain }")).data).toEqual({ cached: 3, plain: 4 });
    cache.setMode("on", "Query.cached");
    await ask("{ cached plain }");
    const { data } = await ask("{ cached plain }");
    expect((await ask("{ cached plain }")).data).toEqual(data);
  });

  it("serves no response while a loader is switched off, since nobody knows which of them have its values", async () => {
    const { ask, cache } = open(server);
    cache.loader<number, number>({ name: "Price", maxAge: 60, batch: async (ids) => ids });
    await ask("{ plain }");
    expect((await ask("{ plain }")).data).toEqual({ plain: 1 });
    cache.setMode("off", "Price");
    expect((await ask("{ plain }")).data).toEqual({ plain: 2 });
    cache.setMode("on", "Price");
    expect((await ask("{ plain }")).data).toEqual({ plain: 1 });
  });

  it("can be switched off, cleared and switched on again under the name of its entries", async () => {
    const { ask, cache } = open(server);
    await ask("{ plain }");
    await cache.invalidate({ coordinate: "responses" });
    expect((await ask("{ plain }")).data).toEqual({ plain: 2 });
    cache.setMode("off", "responses");
    expect((await ask("{ plain }")).data).toEqual({ plain: 3 });
    cache.setMode("on", "responses");
    expect((await ask("{ plain }")).data).toEqual({ plain: 2 });
  });

  it("keeps the response of a field under an auth mark for its caller only", async () => {
    const { ask } = open(server);
    expect((await ask("{ guarded }", { user: "ann" })).data).toEqual({ guarded: 1 });
    expect((await ask("{ guarded }", { user: "bob" })).data).toEqual({ guarded: 2 });
    expect((await ask("{ guarded }")).data).toEqual({ guarded: 3 });
    expect((await ask("{ guarded }", { user: "ann" })).data).toEqual({ guarded: 1 });
  });

  it("keeps the response for its caller although the value under the auth mark is PUBLIC, since a hit skips the check", async () => {
    const { ask } = open(server);
    expect((await ask("{ checked }", { user: "ann" })).data).toEqual({ checked: 1 });
    await ask("{ checked }", { user: "bob" });
    const cached = (await ask("{ checked }", { user: "bob" })).extensions?.cached;
    if (server !== "cache.execute") expect(cached).toEqual({ responses: { hit: 1 } });
    const first = (await ask("{ checked }", { user: "eve" })).extensions?.cached;
    if (server !== "cache.execute") expect(first).toMatchObject({ "Query.checked": { hit: 1 } });
  });

  it("never lets the requests of an operation that is not cacheable wait for each other", async () => {
    const { ask, executions, held } = open(server, {
      typeDefs: typeDefs.replace("hung: Int @cacheControl(maxAge: 60)", "hung: Int"),
    });
    const asked = [ask("{ hung }"), ask("{ hung }"), ask("{ hung }")];
    await settle();
    expect(executions()).toBe(3);
    held.open();
    await Promise.all(asked);
  });

  it("names the fields whose responses nothing invalidates when it starts", async () => {
    const { ask, lines } = open(server);
    await ask("{ plain }");
    expect(lines.filter((line) => line.includes("are kept for their maxAge"))).toEqual([
      "graphql-cached: responses with `Query.plain`, `Query.guarded`, `Query.hung` are kept for their maxAge, whatever changes, unless their resolvers read cached fields or loaders; add @cached with tags to what mutations change",
    ]);
  });

  it("executes the operation if the store is away, once for those who ask meanwhile", async () => {
    const { ask, executions, cache } = open(server);
    await ask("{ plain }");
    await cache.close();
    await ask("{ plain }");
    await ask("{ plain }");
    expect(executions()).toBe(3);
  });
});

describe.each(["GraphQL Yoga", "cache.execute"] as const)("without hints, the response cache on %s", (server) => {
  it("takes the policy of a cached field as its hint, with what its value contains", async () => {
    const { ask } = open(server);
    expect((await ask("{ unhinted { id part } }")).data).toEqual({ unhinted: { id: "1", part: 1 } });
    expect((await ask("{ unhinted { part id } }")).data).toEqual({ unhinted: { id: "1", part: 1 } });
  });

  it("does not keep what a resolver below a cached field returns, which can depend on the caller", async () => {
    const { ask } = open(server);
    expect((await ask("{ unhinted { resolved } }", { user: "ann" })).data).toEqual({ unhinted: { resolved: 3 } });
    expect((await ask("{ unhinted { resolved } }", { user: "magnus" })).data).toEqual({ unhinted: { resolved: 6 } });
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
});

it.each([
  [{}, "cache.execute: `options`.`scope`: expected PUBLIC if"],
  [{ ttl: 5 }, "cache.execute: `options`: `ttl`: unknown option"],
  [[], "cache.execute: expected an object of options, got an array"],
  [true, "cache.execute: expected an object of options, got true"],
])("cache.execute names its own argument in what it says of options %j", async (options, message) => {
  const cache = createCache();
  onTestFinished(() => cache.close());
  const args = { schema: buildSchema("type Query { a: Int }"), document: parse("{ a }"), contextValue: {} };
  await expect(cache.execute(args, options as never)).rejects.toThrow(message);
});

describe("the response cache beside others", () => {
  it.each([0, 1])("reports Apollo's response cache, whichever comes first (%i)", async (first) => {
    const lines: string[] = [];
    const logger = { info: () => undefined, warn: (line: string) => lines.push(line) };
    const { schema, cache } = open("cache.execute", { cache: { logger } as never });
    const own = cachedPlugin(cache, { responses: true });
    const plugins = first === 0 ? [own, responseCachePlugin()] : [responseCachePlugin(), own];
    const apollo = new ApolloServer({ schema, plugins: plugins as never });
    onTestFinished(() => apollo.stop());
    for (let time = 0; time < 2; time++) {
      await apollo.executeOperation({ query: "{ plain }" }, { contextValue: {} });
      await settle();
      await cache.clear();
    }
    await apollo.executeOperation({ query: "{ plain }" }, { contextValue: {} });
    expect(lines.filter((line) => line.includes("expected to be the only response cache"))).toHaveLength(1);
  });

  it("is refused by Mercurius, which has no hook that can answer an operation", () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    expect(() => cachedHooks({} as never, cache, { responses: true } as never)).toThrow(
      "cachedHooks: `responses`: Mercurius has no hook that can answer an operation before it is executed",
    );
  });
});
