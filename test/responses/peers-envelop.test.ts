/**
 * What users of `@envelop/response-cache` and `@graphql-yoga/plugin-response-cache` rely on, as their tests have it, in words of
 * our own, and what is done here instead where that is another thing. All of it on GraphQL Yoga, as the migration guide sets it up.
 */

import { settle } from "@graphql-cached/testing";
import { GraphQLScalarType, getIntrospectionQuery } from "graphql";
import { resultControl } from "graphql-cached";
import type { Plugin } from "graphql-yoga";
import { describe, expect, it } from "vitest";
import { again, type Peer, type Step, takeSteps } from "./peers.js";
import { type Context, openSite, postYoga, type Site, type SiteOptions, yogaOf } from "./site.js";

const [ANN, BOB, GUEST] = [{ user: "ann" }, { user: "bob" }, {}] as const;

/** Each root field counts as an execution. Entities are named by what mutations have set. */
function open(sdl: string, options: Partial<SiteOptions> = {}) {
  let executions = 0;
  const names = new Map<string, string>();
  const cook = (id: string) => ({ __typename: "Cook", id, name: names.get(id) ?? `Cook ${id}` });
  const recipe = (id: string) => ({ __typename: "Recipe", id, title: `Recipe ${id}`, cook: cook(id) });
  const source: Readonly<Record<string, () => unknown>> = {
    recipe: () => recipe("1"),
    recipes: () => [recipe("1"), recipe("2")],
    none: () => [],
    nothing: () => null,
    version: () => ({ number: executions }),
    count: () => executions,
    broken: () => {
      throw new Error("away");
    },
  };
  const query = Object.fromEntries(
    Object.keys(source)
      .filter((name) => new RegExp(`\\b${name}(\\([^)]*\\))?:`).test(sdl))
      .map((name) => [name, () => (executions++, source[name]?.())]),
  );
  const rename = (_: unknown, { id }: { id: string }) => {
    names.set(id, "Renamed");
    return { id, name: "Renamed" };
  };
  const resolvers = {
    Query: query,
    ...(sdl.includes("rename(") ? { Mutation: { rename }, Cook: { score: () => source.broken?.() } } : {}),
    ...(options.resolvers as object | undefined),
  };
  const site = openSite({
    typeDefs: sdl,
    server: "GraphQL Yoga",
    responses: { scope: "PRIVATE", guests: "PUBLIC" },
    applied: { entityTags: true },
    ...options,
    resolvers,
  });
  return { ...site, executions: () => executions };
}

/** Serves the schema of a site on a server of its own. Returns what sends it a request. */
function serve(site: Site, context: (initial: object) => object = () => ({})) {
  const yoga = yogaOf(site, { batching: true, context, responses: { scope: "PRIVATE", guests: "PUBLIC" } });
  const get = async (query: string, headers: Readonly<Record<string, string>> = {}): Promise<Response> => {
    const response = await yoga.fetch(`http://kitchen/graphql?query=${encodeURIComponent(query)}`, { headers });
    await settle();
    return response;
  };
  return { post: (body: unknown, headers?: Readonly<Record<string, string>>) => postYoga(yoga, body, headers), get };
}

async function expectSteps(site: Peer<Context>, expected: readonly Step<Context>[]): Promise<void> {
  expect(await takeSteps(site, expected)).toEqual(expected);
}

describe("how long a response is kept", () => {
  const RECIPES = "{ recipes { title cook { name } } }";
  const RECIPE = "{ recipe { title } }";
  const VERSION = "{ version { number } }";
  const TYPES = /* GraphQL */ `
    type Recipe { id: ID! title: String cook: Cook }
    type Cook { id: ID! name: String }
    type Version { number: Int }
  `;
  const hinted = (place: string, maxAge = 20): string =>
    TYPES.replace(place, `${place} @cacheControl(maxAge: ${maxAge})`);

  it.each([
    ["the root field", RECIPE, `type Query { recipe: Recipe @cacheControl(maxAge: 20) } ${TYPES}`],
    ["the type", RECIPE, `type Query { recipe: Recipe } ${hinted("type Recipe")}`],
    ["a type without id", VERSION, `type Query { version: Version } ${hinted("type Version")}`],
    [
      "the type of the items of a list",
      "{ recipes { title } }",
      `type Query { recipes: [Recipe!]! } ${hinted("type Recipe")}`,
    ],
    [
      "a field below, if that is shorter",
      RECIPE,
      `type Query { recipe: Recipe @cacheControl(maxAge: 60) } ${hinted("title: String")}`,
    ],
    [
      "a type below, if that is shorter",
      RECIPES,
      `type Query { recipes: [Recipe!]! @cacheControl(maxAge: 60) } ${hinted("type Cook")}`,
    ],
    [
      "a cached field, with the objects in its value",
      RECIPES,
      `type Query { recipes: [Recipe!]! @cached(maxAge: 20) } ${TYPES}`,
    ],
  ])("is the maxAge of %s", async (_, query, sdl) => {
    await expectSteps(open(sdl), again(query, "executed served 19 served 2 executed"));
  });

  it.each([
    ["if nothing says so, which is for ever there", RECIPE, `type Query { recipe: Recipe } ${TYPES}`],
    [
      "if only the type of the query says so, which counts for all of it there",
      "{ count }",
      "type Query @cacheControl(maxAge: 60) { count: Int }",
    ],
    [
      "with an object of a type without a rule, below a field with a hint",
      RECIPES,
      `type Query { recipes: [Recipe!]! @cacheControl(maxAge: 60) } ${TYPES}`,
    ],
    ["with a maxAge of 0 on a field", RECIPE, `type Query { recipe: Recipe @cacheControl(maxAge: 0) } ${TYPES}`],
    ["with a maxAge of 0 on a type", RECIPE, `type Query { recipe: Recipe } ${hinted("type Recipe", 0)}`],
    [
      "with a maxAge of 0 on a type without id",
      VERSION,
      `type Query { version: Version } ${hinted("type Version", 0)}`,
    ],
    [
      "with a maxAge of 0 on a type below",
      RECIPES,
      `type Query { recipes: [Recipe!]! @cached(maxAge: 60) } ${hinted("type Cook", 0)}`,
    ],
  ])("is no time at all %s", async (_, query, sdl) => {
    const { ask } = open(sdl);
    const traces = [await ask(query), await ask(query)].map(({ extensions }) => JSON.stringify(extensions));
    for (const trace of traces) expect(trace).not.toContain("responses");
    if (!sdl.includes("@cached(")) await expectSteps(open(sdl), again(query, "executed executed"));
  });

  it("is that of the field if its type says another, where the shorter one counts there", async () => {
    const sdl = `type Query { recipe: Recipe @cacheControl(maxAge: 60) } ${hinted("type Recipe")}`;
    await expectSteps(open(sdl), again(RECIPE, "executed 30 served 31 executed"));
  });

  it("is that of a field or union whatever the types behind it say, where the shortest one counts there", async () => {
    const query = "{ recipe { ... on Version { number } } }";
    const sdl = `type Query { recipe: Found @cacheControl(maxAge: 60) } union Found = Recipe | Version ${hinted("type Recipe", 0)}`;
    await expectSteps(open(sdl), again(query, "executed served"));
  });

  it("is never longer than `maxAge` of the options, in the place of a ttl for all", async () => {
    const site = open(`type Query { recipe: Recipe @cacheControl(maxAge: 60) } ${TYPES}`, {
      responses: { scope: "PRIVATE", guests: "PUBLIC", maxAge: 5 },
    });
    await expectSteps(site, again(RECIPE, "executed served 6 executed"));
  });

  it("can be decided by the resolver of a cached field, in the place of onTtl", async () => {
    let executions = 0;
    const count = (_: unknown, __: unknown, ___: unknown, info: never) => {
      resultControl(info).set({ maxAge: 5 });
      return ++executions;
    };
    const { ask, clock } = open("type Query { count: Int @cached(maxAge: 60) }", { resolvers: { Query: { count } } });
    const site = { ask, clock, executions: () => executions };
    await expectSteps(site, again("{ count }", "executed served 6 executed"));
  });

  it.each([
    ["the name of a type", "{ __typename }"],
    ["an introspection", getIntrospectionQuery()],
  ])("is no time at all for %s", async (_, query) => {
    const { ask } = open("type Query { count: Int @cacheControl(maxAge: 60) }");
    const first = await ask(query);
    const { data, extensions } = await ask(query);
    expect([data, extensions]).toEqual([first.data, { cached: {} }]);
  });
});

describe("whose responses are kept", () => {
  const types = (recipe: string, title: string) => /* GraphQL */ `
    union Found = Recipe | Version
    interface Titled { title: String }
    type Recipe implements Titled ${recipe} { id: ID! title: String ${title} }
    type Version { number: Int }
  `;
  const PRIVATE = "@cacheControl(scope: PRIVATE)";

  it.each([
    ["a type", "{ recipe { title } }", `type Query { recipe: Recipe @cacheControl(maxAge: 60) } ${types(PRIVATE, "")}`],
    [
      "the type of a list",
      "{ recipes { title } }",
      `type Query { recipes: [Recipe] @cacheControl(maxAge: 60) } ${types(PRIVATE, "")}`,
    ],
    [
      "a type in a union",
      "{ recipe { ... on Titled { title } } }",
      `type Query { recipe: Found @cacheControl(maxAge: 60) } ${types(PRIVATE, "")}`,
    ],
    [
      "a type with an interface",
      "{ recipe { title } }",
      `type Query { recipe: Titled @cacheControl(maxAge: 60) } ${types(PRIVATE, "")}`,
    ],
    [
      "the type of the query",
      "{ recipe { title } }",
      `type Query ${PRIVATE} { recipe: Recipe @cacheControl(maxAge: 60) } ${types("", "")}`,
    ],
    [
      "a field",
      "{ recipe { title } }",
      `type Query { recipe: Recipe @cacheControl(maxAge: 60) } ${types("", PRIVATE)}`,
    ],
    [
      "the root field",
      "{ recipe { title } }",
      `type Query { recipe: Recipe @cacheControl(maxAge: 60, scope: PRIVATE) } ${types("", "")}`,
    ],
  ])(
    "callers without a session have none if %s is PRIVATE, whatever the scope of responses is",
    async (_, query, sdl) => {
      const steps: readonly Step<Context>[] = [
        [query, "executed", GUEST],
        [query, "executed", GUEST],
        [query, "executed", ANN],
        [query, "served", ANN],
        [query, "executed", BOB],
      ];
      for (const responses of [{ scope: "PRIVATE", guests: "PUBLIC" }, { scope: "PUBLIC" }] as const)
        await expectSteps(open(sdl, { responses }), steps);
    },
  );
});

const KITCHEN = /* GraphQL */ `
  type Query {
    recipes: [Recipe!]! @cacheControl(maxAge: 600)
    recipe: Found @cacheControl(maxAge: 600)
    none: [Recipe!] @cacheControl(maxAge: 600)
    nothing: Recipe @cacheControl(maxAge: 600)
  }
  type Mutation { rename(id: ID!): Cook }
  union Found = Recipe | Cook
  type Recipe @cacheControl(maxAge: 600) { id: ID! title: String cook: Cook }
  type Cook @cacheControl(maxAge: 600) { id: ID! name: String score: Int }
`;

describe("what a mutation or a call invalidates", () => {
  const RECIPES = "{ recipes { title cook { name } } }";

  it.each([
    ["selects the id of what it returns", 'mutation { rename(id: "2") { id } }'],
    ["selects another field only", 'mutation { rename(id: "2") { name } }'],
    ["fails in a field below what it returns", 'mutation { rename(id: "2") { name score } }'],
    ["defers a part of what it returns", 'mutation { rename(id: "2") { id ... @defer { name } } }'],
  ])("responses with an entity are gone after a mutation that returns it and %s", async (_, mutation) => {
    const site = open(`directive @defer(if: Boolean, label: String) on FRAGMENT_SPREAD | INLINE_FRAGMENT ${KITCHEN}`);
    const { ask, executions } = site;
    for (const _ of [1, 2]) await ask(RECIPES);
    expect(executions()).toBe(1);
    await serve(site).post({ query: mutation }, { accept: "multipart/mixed, application/json" });
    expect(JSON.stringify((await ask(RECIPES)).data)).toContain("Renamed");
    expect(executions()).toBe(2);
  });

  it("responses without the entity that a mutation returns stay", async () => {
    const { ask, executions } = open(KITCHEN);
    await ask(RECIPES);
    await ask('mutation { rename(id: "3") { id } }');
    await ask(RECIPES);
    expect(executions()).toBe(1);
  });

  it.each([
    ["the entity below", "Cook:2", RECIPES],
    ["the type below", "Cook", RECIPES],
    ["the type in the list", "Recipe", RECIPES],
    ["the entity in a union", "Recipe:1", "{ recipe { ... on Recipe { title } } }"],
    ["the type in a union", "Recipe", "{ recipe { ... on Recipe { title } } }"],
  ])("a call with %s invalidates a response, and one with another does not", async (_, tag, query) => {
    const { ask, executions, cache } = open(KITCHEN);
    for (const _ of [1, 2]) await ask(query);
    await cache.invalidateTags(["Recipe:9", "Version"]);
    await ask(query);
    expect(executions()).toBe(1);
    await cache.invalidateTags([tag]);
    await ask(query);
    expect(executions()).toBe(2);
  });

  it.each([
    ["an empty list", "{ none { title } }"],
    ["null", "{ nothing { title } }"],
  ])(
    "the name of a type does not invalidate %s of it, which is kept for ten seconds only and can have a tag",
    async (_, query) => {
      const { ask, executions, cache, clock } = open(KITCHEN);
      await ask(query);
      await cache.invalidateTags(["Recipe"]);
      await ask(query);
      expect(executions()).toBe(1);
      await clock.advance(11_000);
      await ask(query);
      expect(executions()).toBe(2);
      const tagged = open(KITCHEN, { responses: { scope: "PUBLIC", tags: () => ["Recipes"] } });
      await tagged.ask(query);
      await tagged.cache.invalidateTags(["Recipes"]);
      await tagged.ask(query);
      expect(tagged.executions()).toBe(2);
    },
  );
});

describe("what is stored, and what a hit is", () => {
  it.each([
    ["without __typename", "{ recipe { ... on Recipe { title } ... on Cook { name } } }"],
    ["with __typename", "{ recipe { __typename ... on Recipe { id cook { __typename } } } }"],
    [
      "with __typename under another name",
      "{ recipe { kind: __typename ... on Recipe { cook { kind: __typename id } } } }",
    ],
    ["with names that begin with two underscores", "{ recipe { __id: __typename } }"],
  ])("a hit has exactly what was selected, as the execution has: %s", async (_, query) => {
    const { ask, executions } = open(KITCHEN);
    const plain = open(KITCHEN, { responses: false });
    const expected = JSON.stringify((await plain.ask(query)).data);
    for (const _ of [1, 2]) expect(JSON.stringify((await ask(query)).data)).toBe(expected);
    expect(executions()).toBe(1);
  });

  it("lists of scalars and dates are sent with a hit as with the execution", async () => {
    const Stamp = new GraphQLScalarType({ name: "Stamp", serialize: (value) => value });
    const resolvers = { Stamp, Query: { at: () => new Date(0), words: () => ["a", "b"] } };
    const sdl =
      "scalar Stamp type Query { at: Stamp @cacheControl(maxAge: 60) words: [String!]! @cacheControl(maxAge: 60) }";
    const { ask } = open(sdl, { resolvers });
    for (const _ of [1, 2])
      expect((await ask("{ at words }")).data).toEqual({ at: "1970-01-01T00:00:00.000Z", words: ["a", "b"] });
  });
});

describe("beside other parts of a server", () => {
  const COUNTED = /* GraphQL */ `
    directive @defer(if: Boolean, label: String) on FRAGMENT_SPREAD | INLINE_FRAGMENT
    directive @stream(if: Boolean, label: String, initialCount: Int = 0) on FIELD
    type Query {
      count: Int @cacheControl(maxAge: 60)
      words: [String!]! @cacheControl(maxAge: 60)
      recipe: Recipe @cacheControl(maxAge: 60)
    }
    type Recipe { id: ID! title: String }
    type Subscription { tick: Int }
  `;
  const ticks = {
    subscribe: async function* () {
      yield* [{ tick: 1 }, { tick: 2 }];
    },
  };
  let executions = 0;
  const openCounted = () => {
    executions = 0;
    const count = () => ++executions;
    const words = () => [`word ${count()}`];
    return open(COUNTED, {
      resolvers: {
        Query: { count, words, recipe: () => ({ id: count(), title: "Soup" }) },
        Subscription: { tick: ticks },
      } as never,
    });
  };

  it("`cache.override` in the context function keeps a request from the cache, in the place of `enabled`", async () => {
    const site = openCounted();
    let calls = 0;
    const { post } = serve(site, (initial) => {
      calls++;
      // Not what the function returns: Yoga takes its properties over.
      site.cache.override(initial as Context, "BYPASS");
      return {};
    });
    for (const _ of [1, 2]) await post({ query: "{ count }" });
    await site.ask("{ count }");
    expect([executions, calls]).toEqual([3, 2]);
  });

  it("the hooks onExecute and onExecuteDone of other plugins run with executions and with hits, before and after it", async () => {
    const calls: string[] = [];
    const logging = (name: string): Plugin => ({
      onExecute() {
        calls.push(`${name} start`);
        return { onExecuteDone: () => void calls.push(`${name} end`) };
      },
    });
    const yoga = yogaOf(openCounted(), { before: [logging("first")], after: [logging("last")] });
    for (const _ of [1, 2]) {
      await yoga.fetch("http://kitchen/graphql?query={count}");
      await settle();
    }
    expect(executions).toBe(1);
    const each = ["first start", "last start", "first end", "last end"];
    expect(calls).toEqual([...each, ...each]);
  });

  it("subscriptions run as without it, also from a document whose query is stored", async () => {
    const { post } = serve(openCounted());
    const query = "query Count { count } subscription Ticks { tick }";
    for (const _ of [1, 2]) expect(await post({ query, operationName: "Count" })).toBe('{"data":{"count":1}}');
    for (const _ of [1, 2]) {
      const text = await post({ query, operationName: "Ticks" }, { accept: "text/event-stream" });
      expect(text.match(/"tick":\d/g)).toEqual(['"tick":1', '"tick":2']);
    }
  });

  it.each(["{ words @stream }", "{ recipe { id ... @defer { title } } }"])(
    "a response in parts is executed each time and has all of them, where it is merged and stored there: %s",
    async (query) => {
      const { post } = serve(openCounted());
      const accept = "multipart/mixed";
      const texts = [await post({ query }, { accept }), await post({ query }, { accept })];
      expect(executions).toBe(2);
      for (const text of texts) expect(text).toMatch(/word \d|Soup/);
    },
  );

  it("If-None-Match of a client that has the response is answered with 304, whatever If-Modified-Since says, and errors have no ETag", async () => {
    const { get } = serve(openCounted());
    await get("{ count }");
    const hit = await get("{ count }");
    const etag = hit.headers.get("etag") ?? "";
    expect([hit.status, etag.length > 0, hit.headers.get("last-modified")]).toEqual([200, true, null]);
    const known = { "if-none-match": etag, "if-modified-since": new Date(0).toUTCString() };
    expect((await get("{ count }", known)).status).toBe(304);
    expect(executions).toBe(1);
    expect((await get("{ absent }", known)).headers.get("etag")).toBeNull();
  });
});
