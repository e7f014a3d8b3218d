import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import {
  applyCached,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
} from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { describe, expect, it, vi } from "vitest";

function setUp(sdl: string, options: CacheOptions<never> = {}) {
  const warnings: string[] = [];
  const logger = { info: () => undefined, warn: (line: string) => void warnings.push(line) };
  const cache = createCache({ defaultScope: "PUBLIC", logger, ...options });
  const resolvers = { Query: { movie: (_: unknown, { id }: { id: string }) => id }, Mutation: { drop: () => true } };
  const schema = (): GraphQLSchema =>
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, sdl],
      resolvers,
      resolverValidationOptions: { requireResolversToMatchSchema: "ignore" },
    });
  return { cache, warnings, apply: (): GraphQLSchema => applyCached(schema(), cache) };
}

/** Returns a schema whose only field has these arguments of `@cached`. */
const movie = (settings: string, args = "(id: ID!, locale: String)"): string =>
  `type Query { movie${args}: ID @cached(${settings}) }`;

describe("a key without an argument that every call has to pass", () => {
  const report = (names: string): string =>
    `graphql-cached: @cached on \`Query.movie\`: \`key\` leaves out ${names}, which every call has to pass, so calls that differ only there share one value`;

  it.each([
    ["key: []", "`$args.id`", undefined],
    ['key: ["$args.locale"]', "`$args.id`", undefined],
    ["key: []", "`$args.id`, `$args.as`", "(id: ID!, as: Int!, n: Int! = 1)"],
  ])("is reported at start-up: %s", (key, names, args) => {
    const { apply, warnings } = setUp(movie(`maxAge: 60, ${key}`, args));
    apply();
    expect(warnings).toEqual([expect.stringContaining(report(names))]);
  });

  it.each([
    ["maxAge: 60", undefined],
    ['maxAge: 60, key: ["$args"]', undefined],
    ['maxAge: 60, key: ["$args.id"]', undefined],
    ['maxAge: 60, key: ["$args.of.id"]', "(of: Of!)"],
    ["maxAge: 60, key: []", "(id: ID, n: Int! = 1)"],
    ["maxAge: 0, key: []", undefined],
  ])("is not reported if there is none: %s", (settings, args) => {
    const { apply, warnings } = setUp(`${movie(settings, args)} input Of { id: ID }`);
    apply();
    expect(warnings).toEqual([]);
  });
});

describe("a mistake in the SDL", () => {
  it.each([
    [movie('maxAge: 60, scope: "PRIVATE"'), "Expected one of PUBLIC, PRIVATE, without quotes."],
    [movie("maxAge: 60, scope: private"), "Expected one of PUBLIC, PRIVATE, without quotes."],
    [movie("maxAge: 0.5"), "Expected a value of the type Int."],
    [
      "type Query { movie: ID } type Mutation { drop: Boolean @invalidates(tags: [7]) }",
      "Expected a value of the type [String!]!.",
    ],
    [
      "type Query { movie: ID } type Mutation { drop: Boolean @invalidates(tags: []) }",
      "`tags`: expected at least one tag, got none",
    ],
  ])("is reported with what was expected: %s", (sdl, message) => {
    expect(setUp(sdl).apply).toThrow(message);
  });

  it("in extensions.invalidates is reported with the expected form", () => {
    const { cache } = setUp("");
    const schema = makeExecutableSchema({ typeDefs: "type Query { a: Int } type Mutation { drop: Int }" });
    Object.assign(schema.getMutationType()?.getFields().drop as object, { extensions: { invalidates: ["A"] } });
    expect(() => applyCached(schema, cache)).toThrow(
      'expected an object such as { tags: ["Movie:{$result.id}"] }, got "A"',
    );
  });
});

describe("a mistake in a call", () => {
  it("that names a loader as a coordinate, or an argument as a property, is reported with what to pass", async () => {
    const { cache, apply } = setUp(movie("maxAge: 60"));
    apply();
    cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    await expect(cache.invalidate({ coordinate: "Movie" })).rejects.toThrow(
      'for the loader of this name, pass { loader: "Movie" }',
    );
    await expect(cache.invalidate({ coordinate: "Query.movie", id: 7 } as never)).rejects.toThrow(
      "arguments of the field belong in `args`",
    );
  });

  it("that passes a client as the options of redisStore is reported with what to pass", () => {
    const client = new Redis({ lazyConnect: true });
    expect(() => redisStore(client as never)).toThrow(
      "redisStore: expected an object of options, got a client; pass redisStore({ client })",
    );
    client.disconnect();
  });

  it("of a loader without the context of a request is reported once", async () => {
    const { cache, warnings } = setUp("");
    const loader = cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    expect(await loader(undefined as never).load(7)).toBe(7);
    await loader("request" as never).load(8);
    await loader({} as never).load(9);
    expect(warnings).toEqual([
      'graphql-cached: cache.loader("Movie"): expected the context of a request, an object, got undefined; without it, each call has a loader of its own, which neither batches nor remembers',
    ]);
  });
});

describe("a function of the user that throws is reported once", () => {
  it("if it is `allow`, which denies access", async () => {
    const { cache, warnings } = setUp("");
    const allow = (context: { readonly user?: { readonly isAdmin: boolean } }): boolean =>
      (context.user as { isAdmin: boolean }).isAdmin;
    const schema = makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, "type Query { a: Int }"],
      resolvers: [inspectionResolvers(cache as never, { allow })] as never,
    });
    for (let request = 0; request < 2; request++) {
      const { errors } = await graphql({
        schema,
        source: "{ cacheInspection { policies { coordinate } } }",
        contextValue: {},
      });
      expect(errors?.[0]?.extensions.code).toBe("CACHED_INSPECTION_DENIED");
    }
    expect(warnings).toEqual([
      "graphql-cached: inspectionResolvers: `allow` threw, which denies access: Cannot read properties of undefined (reading 'isAdmin')",
    ]);
  });

  it.each([
    [
      "throws",
      () => {
        throw new Error("no\nmetrics");
      },
    ],
    [
      "rejects",
      async () => {
        throw new Error("no\nmetrics");
      },
    ],
  ])("if it is `onEvent`, which %s", async (_, onEvent) => {
    const { apply, warnings } = setUp(movie("maxAge: 60"), { onEvent });
    const schema = apply();
    for (let request = 0; request < 2; request++)
      expect(await graphql({ schema, source: "{ movie(id: 7) }", contextValue: {} })).toEqual({ data: { movie: "7" } });
    await vi.waitFor(() => expect(warnings).not.toEqual([]));
    expect(warnings).toEqual(["graphql-cached: a listener of events, such as `onEvent`, has failed: no\\nmetrics"]);
  });

  it.each([
    ["has no text", Object.create(null)],
    ["has a message that is no text", Object.assign(new Error(), { message: { code: 7 } })],
    [
      "has a message that cannot be read",
      Object.defineProperty(new Error(), "message", {
        get: () => {
          throw new Error("unreadable");
        },
      }),
    ],
  ])("if what it throws %s", async (_, thrown) => {
    const fails = (): never => {
      throw thrown;
    };
    const { apply, warnings } = setUp(movie("maxAge: 60"), { onEvent: fails });
    const schema = apply();
    for (let request = 0; request < 2; request++)
      expect(await graphql({ schema, source: "{ movie(id: 7) }", contextValue: {} })).toEqual({ data: { movie: "7" } });
    expect(warnings).toEqual([expect.stringContaining("such as `onEvent`, has failed: ")]);
  });
});
