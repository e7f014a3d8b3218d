import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import Fastify from "fastify";
import { buildSchema, GraphQLObjectType, GraphQLSchema, GraphQLString, graphql } from "graphql";
import {
  applyCached,
  type Cache,
  CachedError,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";
const createSchema = (sdl = typeDefs): GraphQLSchema => makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl] });

/** A cache whose log lines are kept. */
function createLoggingCache<Context>(options: CacheOptions<Context> = {}) {
  const lines: string[] = [];
  const logger = { info: () => undefined, warn: (line: string) => void lines.push(line) };
  const cache = createCache<Context>({ defaultScope: "PUBLIC", ...options, logger });
  onTestFinished(() => cache.close());
  return { cache, lines };
}

describe("values that are not a cache", () => {
  const given: readonly [unknown, string][] = [
    [{}, "an object"],
    [new Date(), "an instance of Date"],
    [new Map(), "an instance of Map"],
    ["redis://localhost", '"redis://localhost"'],
    [42, "42"],
    [undefined, "undefined"],
    [null, "null"],
  ];
  const allow = (): boolean => true;
  const callers: Readonly<Record<string, (cache: never) => unknown>> = {
    applyCached: (cache) => applyCached(createSchema(), cache),
    cachedPlugin: (cache) => cachedPlugin(cache),
    useCached: (cache) => useCached(cache),
    inspectionResolvers: (cache) => inspectionResolvers(cache, { allow }),
    cachedHooks: (cache) => cachedHooks(Fastify() as never, cache),
  };

  it.each(Object.entries(callers))("are rejected by %s with the same clear error", (name, call) => {
    for (const [value, description] of given) {
      const thrown = errorOf(() => call(value as never));
      expect(thrown.code).toBe("CACHED_OPTION_INVALID");
      expect(thrown.message).toBe(`${name}: expected a cache made by createCache(), got ${description}`);
    }
  });

  it("include a cache of another copy of the package, which is named", () => {
    class Cache {}
    expect(errorOf(() => applyCached(createSchema(), new Cache() as never)).message).toContain(
      "got an instance of Cache of another copy of graphql-cached; install one copy only",
    );
  });
});

describe("a schema that was not passed through applyCached", () => {
  const message = "expected a schema returned by applyCached, got one whose `@cached` on `Query.top` has no effect";

  it("keeps Apollo Server from starting", async () => {
    const server = new ApolloServer({
      schema: createSchema(),
      plugins: [cachedPlugin(createCache({ defaultScope: "PUBLIC" }))],
    });
    await expect(server.start()).rejects.toThrow(`cachedPlugin: ${message}`);
  });

  it("is rejected by the plugin for GraphQL Yoga", () => {
    expect(() =>
      createYoga({ schema: createSchema(), plugins: [useCached(createCache({ defaultScope: "PUBLIC" }))] }),
    ).toThrow(`useCached: ${message}`);
  });

  it("is rejected by the hooks for Mercurius", async () => {
    const app = Fastify();
    await app.register(mercurius, { schema: createSchema() });
    expect(() => cachedHooks(app, createCache({ defaultScope: "PUBLIC" }))).toThrow(`cachedHooks: ${message}`);
    await app.close();
  });

  it("is rejected as well if it was built in code, with extensions.cached", () => {
    const top = { type: GraphQLString, extensions: { cached: { maxAge: 60 } } };
    const schema = new GraphQLSchema({ query: new GraphQLObjectType({ name: "Query", fields: { top } }) });
    expect(() => createYoga({ schema, plugins: [useCached(createCache({ defaultScope: "PUBLIC" }))] })).toThrow(
      `useCached: ${message.replace("@cached", "extensions.cached")}`,
    );
  });

  it("is accepted if it uses no @cached, and after applyCached", async () => {
    const cache = createCache({ defaultScope: "PUBLIC" });
    const plain = new ApolloServer({ schema: buildSchema("type Query { top: Int }"), plugins: [cachedPlugin(cache)] });
    await plain.start();
    await plain.stop();
    const applied = applyCached(createSchema("type Query { top: Int @cached(maxAge: 0) }"), cache);
    const server = new ApolloServer({ schema: applied, plugins: [cachedPlugin(cache)] });
    await server.start();
    await server.stop();
  });
});

describe("a schema that was applied with another cache than that of the adapter", () => {
  const adapters: Readonly<Record<string, (schema: GraphQLSchema, caches: readonly Cache[]) => Promise<unknown>>> = {
    cachedPlugin: async (schema, caches) => {
      const server = new ApolloServer({ schema, plugins: caches.map((cache) => cachedPlugin(cache)) });
      await server.start();
      await server.stop();
    },
    useCached: async (schema, caches) => createYoga({ schema, plugins: caches.map((cache) => useCached(cache)) }),
    cachedHooks: async (schema, caches) => {
      const app = Fastify();
      await app.register(mercurius, { schema });
      for (const cache of caches) cachedHooks(app, cache);
      await app.close();
    },
  };
  for (const [name, start] of Object.entries(adapters)) {
    it(`is accepted by ${name} if that cache has loaders, in either order`, async () => {
      const [fields, loaders] = [createCache({ defaultScope: "PUBLIC" }), createCache({ defaultScope: "PUBLIC" })];
      loaders.loader({ name: "Thing", maxAge: 60, batch: async (ids: readonly number[]) => ids });
      const schema = applyCached(createSchema(), fields);
      await start(schema, [fields, loaders]);
      await start(schema, [loaders, fields]);
    });

    it(`is rejected by ${name} if that cache has no loaders, with the prefix of the other cache`, async () => {
      const schema = applyCached(createSchema(), createCache({ defaultScope: "PUBLIC", prefix: "films" }));
      await expect(start(schema, [createCache({ defaultScope: "PUBLIC", prefix: "shop" })])).rejects.toThrow(
        `${name}: expected the cache that the schema was applied with, or one with loaders, got one without fields and loaders, while \`Query.top\` reads through a cache with the prefix "films"; pass that cache, or create the loaders before the server starts`,
      );
    });
  }

  it("is rejected without a prefix in the message if both caches have the same", async () => {
    const schema = applyCached(createSchema(), createCache({ defaultScope: "PUBLIC" }));
    expect(() => createYoga({ schema, plugins: [useCached(createCache({ defaultScope: "PUBLIC" }))] })).toThrow(
      "while `Query.top` reads through another cache; pass that cache",
    );
  });
});

describe("@invalidates in a place where it has no effect", () => {
  it.each([
    [
      "a query field",
      'type Query { top: Int @invalidates(tags: ["T"]) }',
      "Query.top",
      "expected a field that only mutations can ask for, but queries and subscriptions reach `Query` as well; move it to a field of the mutation type, or call cache.invalidateTags in the resolver",
    ],
    [
      "an interface field",
      'type Query { top: Int } interface Rated { rate: Int @invalidates(tags: ["T"]) } type Movie implements Rated { rate: Int }',
      "Rated.rate",
      "interface fields have no resolver; put `@invalidates` on the fields of the object types",
    ],
  ])("is rejected on %s", (_, sdl, coordinate, message) => {
    expect(errorOf(() => applyCached(createSchema(sdl), createCache({ defaultScope: "PUBLIC" }))).message).toBe(
      `@invalidates on \`${coordinate}\`: ${message}`,
    );
  });

  it("is rejected with an argument of the wrong type, together with the other mistakes", () => {
    const sdl = "type Query { top: Int @cached(maxAge: -1) } type Mutation { rate: Int @invalidates(tags: 7) }";
    const { message } = errorOf(() => applyCached(createSchema(sdl), createCache({ defaultScope: "PUBLIC" })));
    expect(message).toContain("applyCached: found 2 mistakes");
    expect(message).toContain("@invalidates on `Mutation.rate`: invalid argument:");
  });
});

describe("extensions.invalidates of a code-first schema", () => {
  const createCodeFirst = (invalidates: unknown): GraphQLSchema => {
    let version = 0;
    const extensions = { cached: { maxAge: 60, tags: ["Top"] } };
    return new GraphQLSchema({
      query: new GraphQLObjectType({
        name: "Query",
        fields: { top: { type: GraphQLString, resolve: () => `v${version}`, extensions } },
      }),
      mutation: new GraphQLObjectType({
        name: "Mutation",
        fields: { rate: { type: GraphQLString, resolve: () => `v${++version}`, extensions: { invalidates } } },
      }),
    });
  };

  it.each([[{ tags: ["Top"] }], [[{ tags: ["Top"] }]]])("invalidates like the directive: %j", async (invalidates) => {
    const schema = applyCached(createCodeFirst(invalidates), createCache({ defaultScope: "PUBLIC" }));
    const top = async (): Promise<unknown> => (await graphql({ schema, source: "{ top }" })).data?.top;
    expect(await top()).toBe("v0");
    await graphql({ schema, source: "mutation { rate }" });
    expect(await top()).toBe("v1");
  });

  it("is rejected if its tags are not an array of strings", () => {
    expect(
      errorOf(() => applyCached(createCodeFirst({ tags: "Top" }), createCache({ defaultScope: "PUBLIC" }))).message,
    ).toContain('@invalidates on `Mutation.rate`: `tags`: expected an array of strings, got "Top"');
  });
});

describe("a tag of @invalidates that no cached field has", () => {
  const sdl = (tag: string): string =>
    `type Query { a(id: ID): Int @cached(maxAge: 1, tags: ["Pp:{$args.id}"]) } type Mutation { m(id: ID): Int @invalidates(tags: ["${tag}"]) }`;

  it("is reported at start-up with the known tags", () => {
    const { cache, lines } = createLoggingCache();
    applyCached(createSchema(sdl("P:{$args.id}")), cache);
    expect(lines).toEqual([
      "graphql-cached: @invalidates on `Mutation.m`: no cached field has a tag like `P:{$args.id}`; known tags: `Pp:{$args.id}`; correct it, unless the tags of a loader or of another schema match",
    ]);
  });

  it("is not reported if a field can have it, or if loaders may", () => {
    const { cache, lines } = createLoggingCache();
    applyCached(createSchema(sdl("Pp:{$result}")), cache);
    applyCached(createSchema(sdl("Pp:7")), cache);
    cache.loader({ name: "P", maxAge: 1, batch: async (ids: readonly number[]) => ids, tags: (id) => [`P:${id}`] });
    applyCached(createSchema(sdl("P:{$args.id}")), cache);
    expect(lines).toEqual([]);
  });
});

describe("a loader whose key cannot be built", () => {
  const fail = (): never => {
    throw new Error("secret");
  };

  it("is reported once, with the remedy", async () => {
    const { cache, lines } = createLoggingCache();
    class Id {}
    const batch = async (ids: readonly object[]): Promise<readonly object[]> => ids;
    const byClass = cache.loader({ name: "ByClass", maxAge: 1, batch });
    const byThrow = cache.loader({
      name: "ByThrow",
      maxAge: 1,
      batch,
      cacheKeyFn: () => {
        throw new Error("secret");
      },
    });
    for (let request = 0; request < 2; request++) {
      await byClass({}).load(new Id());
      await byThrow({}).load(new Id());
    }
    expect(lines).toEqual([
      'graphql-cached: cache.loader("ByClass"): a value is not cached: key input: expected plain data, got an instance of Id, which needs an entry with `keyOf` in createCache({ types }) to be part of a key; return plain data from `cacheKeyFn`',
      'graphql-cached: cache.loader("ByThrow"): a value is not cached: `cacheKeyFn` threw an exception, the cause of this error',
    ]);
  });

  it.each([
    ["tags", { tags: fail }, "`tags` threw"],
    ["one of two functions", { tags: fail, cacheKeyFn: (id: unknown) => id }, "`cacheKeyFn` or `tags` threw"],
    ["the id itself", {}, "reading the id threw"],
  ])("names what has thrown an exception: %s", async (_what, functions, message) => {
    const { cache, lines } = createLoggingCache();
    const load = cache.loader({ name: "L", maxAge: 1, batch: async (ids: readonly object[]) => ids, ...functions });
    await load({}).load({
      get id() {
        return fail();
      },
    });
    expect(lines).toEqual([
      `graphql-cached: cache.loader("L"): a value is not cached: ${message} an exception, the cause of this error`,
    ]);
  });

  it.each([
    ["a number", 7],
    ["a bigint", 7n],
    ["a symbol", Symbol("secret")],
    ["undefined", undefined],
    ["null", null],
    ["an array", ["secret"]],
    ["an instance of String", new String("secret")],
    ["an empty string", ""],
  ])("is reported if one of its tags is %s, without the tag", async (given, tag) => {
    const { cache, lines } = createLoggingCache();
    let loads = 0;
    const load = cache.loader({
      name: "L",
      maxAge: 60,
      tags: () => ["secret", tag as string],
      batch: async (ids: readonly number[]) => {
        loads++;
        return ids;
      },
    });
    for (let request = 0; request < 2; request++) expect(await load({}).load(1)).toBe(1);
    expect(loads).toBe(2);
    expect(lines).toEqual([
      `graphql-cached: cache.loader("L"): a value is not cached: \`tags\`: expected a function that returns an array of non-empty strings, got an array with ${given} for an id; return tags such as \`Movie:\${id}\``,
    ]);
  });
});

describe("an identify function that returns no identity", () => {
  const sdl = "type Query { me: String @cached(maxAge: 60, scope: PRIVATE) }";
  const ask = async (identify: unknown): Promise<readonly string[]> => {
    const { cache, lines } = createLoggingCache({ identify: identify as never });
    const schema = applyCached(createSchema(sdl), cache);
    for (let request = 0; request < 3; request++) await graphql({ schema, source: "{ me }", contextValue: {} });
    const loader = cache.loader({
      name: "Mine",
      maxAge: 1,
      scope: "PRIVATE",
      batch: async (ids: readonly number[]) => ids,
    });
    await loader({}).load(1);
    return lines;
  };

  it.each([
    ["a promise", async () => "alice", "got a promise; resolve the identity while the context is created"],
    ["an object", () => ({ id: 7 }), "got an object; return a user id"],
    [
      "the text of a missing value",
      () => "undefined",
      "got a string that stands for a missing value; return a user id",
    ],
    [
      "a text with a part that is missing",
      () => `user:${undefined}`,
      "got a string that stands for a missing value; return a user id",
    ],
    [
      "an exception",
      () => {
        throw new Error("no session");
      },
      "it threw an exception, the cause of this error",
    ],
  ])("is reported once for each field and loader: %s", async (_, identify, problem) => {
    const expected = (coordinate: string): string =>
      `graphql-cached: createCache: \`identify\`: expected a string, number, bigint, null or undefined, ${problem}; until then PRIVATE fields such as \`${coordinate}\` are not cached`;
    expect(await ask(identify)).toEqual([expected("Query.me"), expected("Mine")]);
  });

  it("is not reported if the caller is anonymous", async () => {
    expect(await ask(() => undefined)).toEqual([]);
    expect(await ask(() => null)).toEqual([]);
  });
});

function errorOf(run: () => unknown): CachedError {
  try {
    run();
  } catch (error) {
    expect(error).toBeInstanceOf(CachedError);
    return error as CachedError;
  }
  throw new Error("an error was expected");
}
