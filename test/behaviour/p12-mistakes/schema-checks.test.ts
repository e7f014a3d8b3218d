import { makeExecutableSchema } from "@graphql-tools/schema";
import type { IResolvers } from "@graphql-tools/utils";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, cachedTypeDefs } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { expectNoLeaks, expectOneLoad, expectSameResponse } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { sharedServer } from "../../support/shared-servers.js";

interface Caller {
  readonly user?: string;
  readonly request?: number;
}

const quiet = { info: () => undefined, warn: () => undefined };
const options = { cache: { logger: quiet, identify: ({ user }: Caller) => user } };

/** Returns a factory of schemas with these types and resolvers. */
const server =
  (typeDefs: string, resolvers: object) =>
  (cache: Cache<Caller>): GraphQLSchema =>
    applyCached(
      makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: resolvers as IResolvers }),
      cache,
    );

const films = server(
  `type Query { movie(id: ID!): Movie @cached(maxAge: 60) movies: [Movie!]! @cached(maxAge: 60) now: Float }
   type Movie { id: ID! title: String! stars: Float @cached(maxAge: 60) }`,
  {
    Query: {
      movie: (_: unknown, { id }: { id: string }) => ({ id, title: `Film ${id}` }),
      movies: () => [1, 2, 3].map((id) => ({ id, title: `Film ${id}` })),
      now: () => Math.random(),
    },
    Movie: { stars: async ({ id }: { id: number }) => Number(id) * 2 },
  },
);

/** A class whose instances hold something that no codec sees. */
class Price {
  readonly #cents: number;
  constructor(cents: number) {
    this.#cents = cents;
  }
  get text(): string {
    return `${this.#cents / 100} €`;
  }
}

describe("expectOneLoad", () => {
  it("counts one load per value across processes, lists included", async () => {
    const loads = await expectOneLoad(films, "{ movies { title stars } }", { ...options, processes: 5, requests: 2 });
    expect(loads).toEqual({ "Query.movies": 1, "Movie.stars": 3 });
  });

  it("takes no mode that was asked for as a mistake of the schema", async () => {
    const cache = { ...options.cache, initialMode: "off" } as const;
    await expect(expectOneLoad(films, '{ movie(id: "1") { title } }', { cache })).rejects.toThrow(
      "expected a query with cached fields or loaders, got one that loads none",
    );
  });

  it("counts the loads of loaders", async () => {
    const withLoader = (cache: Cache<Caller>): GraphQLSchema => {
      const movies = cache.loader({
        name: "Movie",
        maxAge: 60,
        batch: async (ids: readonly string[]) => ids.map((id) => ({ title: `Film ${id}` })),
      });
      return server("type Query { movie(id: ID!): Movie } type Movie { title: String }", {
        Query: { movie: (_: unknown, { id }: { id: string }, context: Caller) => movies(context).load(id) },
      })(cache);
    };
    const query = { query: "query Film($id: ID!) { movie(id: $id) { title } }", variables: { id: "7" } };
    expect(await expectOneLoad(withLoader, query, options)).toEqual({ Movie: 1 });
  });

  it("takes the options of a server with a near cache, and a schema with loaders only", async () => {
    const loadersOnly = (cache: Cache<Caller>): GraphQLSchema => {
      const films = cache.loader({
        name: "Film",
        maxAge: 60,
        batch: async (ids: readonly number[]) => ids.map(String),
      });
      const resolvers = { Query: { film: (_: unknown, __: unknown, context: Caller) => films(context).load(1) } };
      return makeExecutableSchema({ typeDefs: "type Query { film: String }", resolvers });
    };
    const cache = { ...options.cache, nearCache: {} };
    expect(await expectOneLoad(loadersOnly, "{ film }", { cache })).toEqual({ Film: 1 });
  });

  it("names a field whose values cannot be stored, and why", async () => {
    const prices = server("type Query { price: Price @cached(maxAge: 60) } type Price { text: String }", {
      Query: { price: () => new Price(250) },
    });
    await expect(expectOneLoad(prices, "{ price { text } }", options)).rejects.toThrow(
      /^expectOneLoad: query \(`\{ price \{ text \} \}`\), sent 12 times to 4 processes:\n- `Query.price`: loaded up to \d+ times per key \(\d+ loads of 1 key\), expected once: .*Price/s,
    );
  });

  it("names a field that is loaded again after one request has loaded it", async () => {
    const prices = server("type Query { price: Price @cached(maxAge: 60) } type Price { text: String }", {
      Query: { price: () => new Price(250) },
    });
    await expect(
      expectOneLoad(prices, "{ price { text } }", { ...options, processes: 1, requests: 1 }),
    ).rejects.toThrow(
      /sent once more to 1 process:\n- `Query.price`: loaded again \(1 time\) after its value had been loaded, expected a hit: .*Price/s,
    );
  });

  it("names a field whose key differs from request to request", async () => {
    const tracked = server('type Query { top: Int @cached(maxAge: 60, key: ["$context.request"]) }', {
      Query: { top: () => 1 },
    });
    let request = 0;
    const context = (): Caller => ({ request: ++request });
    await expect(expectOneLoad(tracked, "{ top }", { ...options, context })).rejects.toThrow(
      "- `Query.top`: 12 keys, expected the 1 of one request: a part of the key differs from request to request",
    );
  });

  it("names a PRIVATE field without an identity and a field without a usable key", async () => {
    const viewer = server(
      'type Query { mine: Int @cached(maxAge: 60, scope: PRIVATE) other: Int @cached(maxAge: 60, key: ["$context.locale"]) }',
      { Query: { mine: () => 1, other: () => 1 } },
    );
    const failed = expectOneLoad(viewer, "{ mine other }", options);
    await expect(failed).rejects.toThrow(
      "- `Query.mine`: resolved 12 times without the cache (NO_IDENTITY): it is PRIVATE, and `identify` returned nothing for the context; pass `context` and `cache: { identify }`",
    );
    await expect(failed).rejects.toThrow(
      "- `Query.other`: resolved 12 times without the cache (KEY_UNUSABLE): `Query.other` is not cached: its key needs `$context.locale`",
    );
  });

  it("does not check the fields in `except`, and refuses names that are not loaded", async () => {
    const both = server("type Query { a: Int @cached(maxAge: 60) b: P @cached(maxAge: 60) } type P { text: String }", {
      Query: { a: () => 1, b: () => new Price(1) },
    });
    expect(await expectOneLoad(both, "{ a b { text } }", { ...options, except: ["Query.b"] })).toMatchObject({
      "Query.a": 1,
    });
    await expect(expectOneLoad(both, "{ a b { text } }", { ...options, except: ["Query.c"] })).rejects.toThrow(
      '`except`: expected cached fields and loaders of the query, got "Query.c"; loaded were `Query.a`, `Query.b`',
    );
  });

  it("refuses a query that fails, one that loads nothing, and contexts that are used twice", async () => {
    const failing = server("type Query { top: Int @cached(maxAge: 60) }", {
      Query: {
        top: () => {
          throw new Error("the database is away");
        },
      },
    });
    await expect(expectOneLoad(failing, "{ top }", options)).rejects.toThrow(
      'expected a response without errors, since failed loads are not stored, got "the database is away" at `top`',
    );
    await expect(expectOneLoad(films, "{ now }", options)).rejects.toThrow(
      "expected a query with cached fields or loaders, got one that loads none",
    );
    const shared = {};
    await expect(expectOneLoad(films, "{ movies { id } }", { ...options, context: () => shared })).rejects.toThrow(
      "expectOneLoad: context: expected a function that returns a new context for each request, got the same object again",
    );
  });

  it.each([
    ["mutation { add }", "expected a query, got a mutation: the check executes each operation several times"],
    ["subscription { added }", "expected a query, got a subscription"],
    ["{ movie(id: 1) { nothing } }", 'expected a query that the schema accepts: Cannot query field "nothing"'],
    ["{ movie(", "expected a GraphQL query, got text that cannot be parsed: Syntax Error"],
    ["query A { now } query B { now }", "pass { query, operationName } to choose one of several"],
  ])("refuses %s", async (query, message) => {
    const withAll = server(
      "type Query { now: Int movie(id: ID!): M @cached(maxAge: 60) } type M { id: ID } type Mutation { add: Int } type Subscription { added: Int }",
      {},
    );
    await expect(expectOneLoad(withAll, query, options)).rejects.toMatchObject({ code: "CACHED_OPTION_INVALID" });
    await expect(expectOneLoad(withAll, query, options)).rejects.toThrow(message);
  });

  it("refuses a schema in the place of a factory, and one without the cache", async () => {
    const plain = makeExecutableSchema({ typeDefs: "type Query { a: Int }" });
    await expect(expectOneLoad(plain as never, "{ a }")).rejects.toThrow(
      "expectOneLoad: expected a function that returns the schema for a cache as the first argument, got an instance of GraphQLSchema; pass (cache) => applyCached(schema, cache)",
    );
    await expect(expectOneLoad(() => plain, "{ a }")).rejects.toThrow("return applyCached(schema, cache)");
  });
});

describe("expectSameResponse", () => {
  const byLocale = server(
    'type Query { greeting(name: String!, locale: String!): String @cached(maxAge: 60, key: ["$args.name"]) }',
    {
      Query: { greeting: (_: unknown, { name, locale }: { name: string; locale: string }) => `${locale}: ${name}` },
    },
  );

  it("accepts queries whose responses the cache does not change, errors and lists included", async () => {
    const failing = server(
      "type Query { films: [Film]! @cached(maxAge: 60) } type Film { id: ID! title: String! critic: String }",
      {
        Query: { films: () => [{ id: 1, title: "Alien" }, { id: 2 }, null] },
        Film: {
          critic: ({ id }: { id: number }) => {
            throw new Error(`no critic of ${id}`);
          },
        },
      },
    );
    await expectSameResponse(failing, ["{ films { id critic } }", "{ films { id title critic } }"], options);
    await expectSameResponse(films, ["{ movies { title stars } }", "{ movie(id: 7) { title stars } }"], options);
  });

  it("finds a key that lacks an argument", async () => {
    const queries = ["de", "en"].map((locale) => ({
      query: 'query Greeting($locale: String!) { hello: greeting(name: "Anna", locale: $locale) }',
      variables: { locale },
    }));
    await expect(expectSameResponse(byLocale, queries, options)).rejects.toThrow(
      'queries[1] (`query Greeting($locale: String!) { hello: greeting(name: "A…` with `{"locale":"en"}`): the response differs at `hello` in its first run: expected \'en: Anna\' as without the cache, got \'de: Anna\'; the cached field there is `Query.greeting`, scope PUBLIC, whose key is `$args.name`; add what its value depends on to `key`, and return only data that the codec restores',
    );
  });

  it("finds a query whose second run differs, since a child resolver uses what no copy has", async () => {
    const titles = new WeakMap<object, string>();
    const hidden = server("type Query { movie: Movie @cached(maxAge: 60) } type Movie { id: ID title: String }", {
      Query: {
        movie: () => {
          const movie = { id: 1 };
          titles.set(movie, "Alien");
          return movie;
        },
      },
      Movie: { title: (movie: object) => titles.get(movie) ?? null },
    });
    await expect(expectSameResponse(hidden, ["{ movie { title } }"], options)).rejects.toThrow(
      /the response differs at `movie.title` in its first run: expected 'Alien' as without the cache, got null; the cached field there is `Query.movie`/,
    );
  });

  it("finds values that a codec of the application changes", async () => {
    const codec = {
      id: "plain-json",
      encode: (value: unknown) => Buffer.from(JSON.stringify(value)),
      decode: (bytes: Uint8Array) => JSON.parse(Buffer.from(bytes).toString()) as unknown,
    };
    const dated = server("type Query { films: [Film!]! @cached(maxAge: 60) } type Film { year: Int }", {
      Query: { films: () => [{ released: new Date("1979-05-25") }] },
      Film: {
        year: ({ released }: { released: unknown }) => (released instanceof Date ? released.getUTCFullYear() : null),
      },
    });
    await expect(
      expectSameResponse(dated, ["{ films { year } }"], { cache: { ...options.cache, codec } }),
    ).rejects.toThrow("differs at `films[0].year` in its first run: expected 1979 as without the cache, got null");
  });

  it("finds a query that the cache serves nothing of, and says why", async () => {
    const prices = server("type Query { price: Price @cached(maxAge: 60) } type Price { text: String }", {
      Query: { price: () => new Price(250) },
    });
    await expect(expectSameResponse(prices, ["{ price { text } }"], options)).rejects.toThrow(
      /queries\[0\] \(`\{ price \{ text \} \}`\): expected a query of which the cache serves at least a part, got one that it does not serve: .*Price/s,
    );
  });

  it("refuses responses that differ without the cache, and says how to exclude the path", async () => {
    const query = "{ movies { title } current: now }";
    await expect(expectSameResponse(films, [query], options)).rejects.toThrow(
      /two responses without the cache differ at `current` \(0\.\d+, then 0\.\d+\), so the cache cannot be checked there; make the resolver deterministic in the test, or pass \{ ignore: \["current"\] \}/,
    );
    await expectSameResponse(films, [query], { ...options, ignore: ["current"] });
  });

  it("refuses paths in `ignore` that no response has", async () => {
    await expect(
      expectSameResponse(films, ["{ movies { title } }"], { ...options, ignore: ["movies.titel"] }),
    ).rejects.toThrow(
      "`ignore`: expected paths of the responses, such as movies.title, got `movies.titel`, which no response has",
    );
  });

  it("refuses an empty list of queries and a mutation in it", async () => {
    await expect(expectSameResponse(films, [], options)).rejects.toThrow(
      "`queries`: expected an array of at least one query, got none",
    );
    await expect(expectSameResponse(films, ["{ now }", "mutation { now }"], options)).rejects.toThrow(
      "queries[1]: expected a query, got a mutation",
    );
  });
});

describe("expectNoLeaks", () => {
  const resolvers = {
    Query: {
      me: (_: unknown, __: unknown, { user }: Caller) => (user === undefined ? null : { id: user }),
      motto: (_: unknown, __: unknown, { user = "guest" }: Caller) => `motto of ${user}`,
      title: () => "Marquee",
      greeting: (_: unknown, __: unknown, { user }: Caller) => {
        if (user === undefined) throw new Error("sign in first");
        return "welcome";
      },
    },
    Viewer: { rating: async ({ id }: { id: string }) => id.length },
  };
  const schemaWith = (motto: string, greeting = "") =>
    server(
      `type Query { me: Viewer motto: String @cached(maxAge: 60${motto}) title: String @cached(maxAge: 60) greeting: String ${greeting} }
       type Viewer { id: ID! rating: Int @cached(maxAge: 60, scope: PRIVATE) }`,
      resolvers,
    );
  const identities = {
    anna: (): Caller => ({ user: "anna" }),
    benjamin: (): Caller => ({ user: "benjamin" }),
    nobody: (): Caller => ({}),
  };
  const queries = ["{ motto title }", "{ me { id rating } }"];

  it("accepts a schema in which what depends on the identity is PRIVATE or has it in its key", async () => {
    await expectNoLeaks(schemaWith(", scope: PRIVATE"), identities, queries, options);
    const keyed = { anna: identities.anna, benjamin: identities.benjamin };
    await expectNoLeaks(schemaWith(', key: ["$context.user"]'), keyed, queries, options);
  });

  it("finds a PUBLIC field that depends on the user, and says who saw whose value", async () => {
    await expect(expectNoLeaks(schemaWith(""), identities, queries, options)).rejects.toThrow(
      "queries[0] (`{ motto title }`): \"benjamin\" got 'motto of anna' at `motto`, the value of \"anna\", expected 'motto of benjamin' as without the cache; the cached field there is `Query.motto`, scope PUBLIC, whose key is `$args`; set scope: PRIVATE, or add what its value depends on to `key`",
    );
  });

  it("finds a value behind an error of permission, whichever user asks first", async () => {
    await expect(
      expectNoLeaks(schemaWith(", scope: PRIVATE", "@cached(maxAge: 60)"), identities, ["{ greeting }"], options),
    ).rejects.toThrow(
      '"nobody" got \'welcome\' at `greeting`, the value of "anna", expected null as without the cache',
    );
  });

  it("finds an identity that two users share", async () => {
    const cache = { logger: quiet, identify: () => "everyone" };
    await expect(expectNoLeaks(schemaWith(", scope: PRIVATE"), identities, queries, { cache })).rejects.toThrow(
      '"benjamin" got \'motto of anna\' at `motto`, the value of "anna"',
    );
  });

  it("refuses a check in which nothing can leak", async () => {
    const schema = schemaWith(", scope: PRIVATE");
    await expect(expectNoLeaks(schema, identities, ["{ title }"], options)).rejects.toThrow(
      "expected at least one query whose response depends on the identity, got the same responses for all of them",
    );
    await expect(expectNoLeaks(schema, identities, ["{ me { id } }"], options)).rejects.toThrow(
      "expected queries of which the cache serves at least a part, got none that it serves",
    );
    await expect(expectNoLeaks(schema, { anna: identities.anna }, queries, options)).rejects.toThrow(
      '`identities`: expected at least two, such as { anna: () => ({ userId: "1" }), ben: () => ({ userId: "2" }) }, got 1',
    );
  });
});

describe("every check", () => {
  it("rejects null instead of options or identities, and says what it expects", async () => {
    const [schema, none] = [server("type Query { now: Int }", {}), null as never];
    for (const [check, message] of [
      [() => expectOneLoad(schema, "{ now }", none), "expectOneLoad: expected an object of options, got null"],
      [
        () => expectSameResponse(schema, ["{ now }"], none),
        "expectSameResponse: expected an object of options, got null",
      ],
      [() => expectNoLeaks(schema, {}, ["{ now }"], none), "expectNoLeaks: expected an object of options, got null"],
      [() => expectNoLeaks(schema, none, ["{ now }"]), "expectNoLeaks: `identities`: expected at least two, such as"],
    ] as const)
      await expect(check()).rejects.toMatchObject({
        code: "CACHED_OPTION_INVALID",
        message: expect.stringContaining(message) as string,
      });
  });
});

describe("the checks on Redis", async () => {
  const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
  afterAll(() => client.quit());

  it("count one load across processes with a store each, and leave the keys of others alone", async () => {
    const store = () => redisStore({ client });
    expect(await expectOneLoad(films, "{ movies { stars } }", { ...options, store })).toEqual({
      "Query.movies": 1,
      "Movie.stars": 3,
    });
    await expectSameResponse(films, ["{ movies { stars } }"], { ...options, store });
  });
});
