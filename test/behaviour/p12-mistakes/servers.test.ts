import { ApolloServer } from "@apollo/server";
import { buildSubgraphSchema } from "@apollo/subgraph";
import { addResolversToSchema, mergeSchemas } from "@graphql-tools/schema";
import { stitchSchemas } from "@graphql-tools/stitch";
import { getDirective, MapperKind, mapSchema } from "@graphql-tools/utils";
import { wrapSchema } from "@graphql-tools/wrap";
import Fastify from "fastify";
import {
  defaultFieldResolver,
  extendSchema,
  GraphQLObjectType,
  GraphQLSchema,
  GraphQLString,
  graphql,
  isObjectType,
  lexicographicSortSchema,
  parse,
} from "graphql";
import { applyCached, type Cache, inspectionResolvers } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { redisStore } from "graphql-cached/redis";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { Redis } from "ioredis";
import { mercurius } from "mercurius";
import { describe, expect, it } from "vitest";
import { applyMiddleware, rule, shield } from "../../support/graphql-shield.js";
import { errorOf, listen, schemaOf } from "../../support/listen.js";
import { sharedServer } from "../../support/shared-servers.js";
import { subgraphTypeDefs } from "../../support/subgraph.js";
import { afterCaches } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"])
    top: [Movie!] @cached(maxAge: 60)
    plain: Int
  }
  type Mutation { rate(id: ID!): Movie @invalidates(tags: ["Movie:{$result.id}"]) }
  type Movie { id: ID! stars: Int @cached(maxAge: 60) }
`;
const resolvers = {
  Query: { movie: (_: unknown, { id }: { id: string }) => ({ id }), top: () => [], plain: () => 1 },
  Mutation: { rate: (_: unknown, { id }: { id: string }) => ({ id }) },
  Movie: { stars: () => 5 },
};
const build = (): GraphQLSchema => schemaOf(typeDefs, resolvers);
const batch = async (ids: readonly number[]) => ids;

/** Starts a server with a schema and a plugin for each cache, and stops it. */
const SERVERS: Readonly<Record<string, (schema: GraphQLSchema, ...caches: readonly Cache[]) => Promise<unknown>>> = {
  cachedPlugin: async (schema, ...caches) => {
    const server = new ApolloServer({ schema, plugins: caches.map((cache) => cachedPlugin(cache)) });
    await server.start();
    await server.executeOperation({ query: "{ plain }" });
    await server.stop();
  },
  useCached: async (schema, ...caches) =>
    createYoga({ schema, plugins: caches.map((cache) => useCached(cache)), logging: false }),
  cachedHooks: async (schema, ...caches) => {
    const app = Fastify();
    await app.register(mercurius, { schema });
    try {
      for (const cache of caches) cachedHooks(app, cache);
    } finally {
      await app.close();
    }
  },
};

/** In-place wrappers as those of Apollo Server, and what other packages make of a schema. */
const TRANSFORMS: Readonly<Record<string, (schema: GraphQLSchema) => GraphQLSchema>> = {
  "wrappers that are assigned in place": (schema) => {
    for (const type of Object.values(schema.getTypeMap())) {
      if (!isObjectType(type) || type.name.startsWith("__")) continue;
      for (const field of Object.values(type.getFields())) {
        const { resolve = defaultFieldResolver } = field;
        field.resolve = (...args) => resolve(...args);
      }
    }
    return schema;
  },
  mapSchema: (schema) =>
    mapSchema(schema, {
      [MapperKind.OBJECT_FIELD]: (field) => {
        const { resolve = defaultFieldResolver } = field;
        return { ...field, resolve: (...args) => resolve(...args) };
      },
    }),
  "a directive that assigns to the copy of a field": (schema) =>
    mapSchema(schema, {
      [MapperKind.OBJECT_FIELD]: (field) => {
        if (getDirective(schema, field, "cached") === undefined) return undefined;
        const { resolve = defaultFieldResolver } = field;
        field.resolve = async function upper(...args) {
          return resolve.apply(this, args);
        };
        return field;
      },
    }),
  "a schema whose fields are sorted": lexicographicSortSchema,
  "a schema that is extended": (schema) => extendSchema(schema, parse("extend type Query { other: Int }")),
  mergeSchemas: (schema) => mergeSchemas({ schemas: [schema, schemaOf("type Query { other: Int }")] }),
  wrapSchema: (schema) => wrapSchema({ schema }),
  stitchSchemas: (schema) => stitchSchemas({ subschemas: [{ schema }] }),
  "a copy without extensions": (schema) => new GraphQLSchema({ ...schema.toConfig(), extensions: {} }),
  "tracing that gives its wrappers the names of what they wrap": (schema) => {
    for (const field of Object.values(schema.getQueryType()?.getFields() ?? {})) {
      const { resolve = defaultFieldResolver } = field;
      field.resolve = (...args) => resolve(...args);
      Object.defineProperty(field.resolve, "name", { value: resolve.name });
    }
    return schema;
  },
  "graphql-middleware on every field": (schema) =>
    applyMiddleware(schema, async function log(resolve, parent, args, context, info) {
      return resolve(parent, args, context, info);
    }),
  "graphql-shield": (schema) => applyMiddleware(schema, shield({ Query: { movie: rule()(() => true) } })),
};

const dropped =
  "expected the schema that applyCached returned, got another one, in which `Query.movie`, `Query.top`, `Mutation.rate`, `Movie.stars` do not use the cache; pass the result of applyCached to the server";
const replaced = (fields: string): string =>
  `expected the resolvers of applyCached, got others for ${fields}, which do not use the cache; set resolvers before applyCached, so that it comes last`;
const added = (fields: string): string =>
  `expected a schema without policies that came after applyCached, got ${fields}, which do not use the cache; add fields before applyCached, so that it comes last`;

interface Start {
  readonly cache: Cache;
  start(schema: GraphQLSchema): Promise<unknown>;
}

/** What is given to a server, by what becomes of it, and what is reported of it. */
const GIVEN: Readonly<Record<string, readonly [reports: readonly string[], give: (to: Start) => Promise<unknown>]>> = {
  "is reported once if the result of applyCached was dropped": [
    [dropped],
    async ({ cache, start }) => {
      const schema = build();
      applyCached(schema, cache);
      for (const _ of [1, 2]) await start(schema);
    },
  ],
  "is reported if it was built again from the same resolvers": [
    [dropped],
    ({ cache, start }) => {
      applyCached(build(), cache);
      return start(build());
    },
  ],
  "is reported if fields with a policy were added after applyCached, as an extension or from another schema": [
    [added("`Query.late`"), added("`Query.other`, `Mutation.change`")],
    async ({ cache, start }) => {
      const extension = parse("extend type Query { late: Int @cached(maxAge: 60) never: Int @cached(maxAge: 0) }");
      await start(extendSchema(applyCached(build(), cache), extension));
      const sdl =
        'type Query { other: Int @cached(maxAge: 60) } type Mutation { change: Int @invalidates(tags: ["A"]) }';
      const others = schemaOf(sdl, { Query: { other: () => 1 }, Mutation: { change: () => 1 } });
      await start(mergeSchemas({ schemas: [applyCached(build(), cache), others] }));
    },
  ],
  "is reported if resolvers were added after applyCached, with the fields that they concern": [
    [replaced("`Query.movie`, `Mutation.rate`")],
    ({ cache, start }) => {
      const added = { Query: { movie: () => ({ id: 1 }) }, Mutation: resolvers.Mutation };
      return start(addResolversToSchema({ schema: applyCached(build(), cache), resolvers: added }));
    },
  ],
  "is reported if resolvers were assigned to its fields, or removed from them": [
    [replaced("`Query.movie`, `Query.top`")],
    ({ cache, start }) => {
      const schema = applyCached(build(), cache);
      const { top, movie } = schema.getQueryType()?.getFields() ?? {};
      Object.assign(top as object, { resolve: resolvers.Query.top });
      Object.assign(movie as object, { resolve: undefined });
      return start(schema);
    },
  ],
  "is not reported if it is the result of applyCached, also after requests, in another server": [
    [],
    async ({ cache, start }) => {
      const schema = applyCached(build(), cache);
      await start(schema);
      await graphql({ schema, source: "{ top { id stars } }" });
      await start(schema);
    },
  ],
  ...Object.fromEntries(
    Object.entries(TRANSFORMS).map(([what, transform]) => [
      `is not reported if a transform calls the resolvers of the cache: ${what}`,
      [[], ({ cache, start }: Start) => start(transform(applyCached(build(), cache)))] as const,
    ]),
  ),
  "is not reported if its fields of these names have no policy": [
    [],
    ({ cache, start }) => {
      applyCached(build(), cache);
      return start(schemaOf("type Query { movie(id: ID!): Int plain: Int }"));
    },
  ],
  "is not reported if it was never applied, and has no policies": [
    [],
    ({ start }) => start(schemaOf("type Query { plain: Int }")),
  ],
  "is not reported if other fields are cached in another schema of the same cache": [
    [],
    ({ cache, start }) => {
      applyCached(build(), cache);
      const uncached = typeDefs.replace('@cached(maxAge: 60, tags: ["Movie:{$args.id}"])', "");
      return start(applyCached(schemaOf(uncached, resolvers), cache));
    },
  ],
  "is not reported if it is a federation subgraph, or a gateway in the same process": [
    [],
    async ({ cache, start }) => {
      const plain = buildSubgraphSchema({ typeDefs: parse(subgraphTypeDefs(typeDefs)), resolvers });
      const subgraph = applyCached(plain, cache);
      await start(subgraph);
      await start(stitchSchemas({ subschemas: [{ schema: subgraph }] }));
    },
  ],
};

describe.each(Object.entries(SERVERS))("a schema that is given to %s", (name, run) => {
  it.each(Object.entries(GIVEN))("%s", async (_, [reports, give]) => {
    const { cache, warnings } = listen();
    const start = (schema: GraphQLSchema): Promise<unknown> => run(schema, cache);
    await give({ cache, start });
    expect(warnings.filter((line) => !line.includes("no cached field has a tag"))).toEqual(
      reports.map((report) => `${name}: ${report}`),
    );
  });

  it("has one line for information, which says what is cached and where", async () => {
    const { cache, infos } = listen();
    cache.loader({ name: "Movie", maxAge: 60, batch });
    const schema = applyCached(build(), cache);
    infos.length = 0;
    for (const _ of [1, 2]) await run(schema, cache);
    expect(infos.filter((line) => !line.includes("recommend"))).toEqual([
      "3 cached fields, 1 loader, 1 mutation invalidates, store memory (this process only), prefix gc",
    ]);
  });

  it("keeps it from starting if it was not passed through applyCached, unless nothing is cached", async () => {
    const message = "expected a schema returned by applyCached, got one whose `@cached` on `Query.top` has no effect";
    const top = "type Query { top: Int @cached(maxAge: 60) }";
    await expect(run(schemaOf(top), listen().cache)).rejects.toThrow(`${name}: ${message}`);
    const field = { type: GraphQLString, extensions: { cached: { maxAge: 60 } } };
    const codeFirst = new GraphQLSchema({ query: new GraphQLObjectType({ name: "Query", fields: { top: field } }) });
    await expect(run(codeFirst, listen().cache)).rejects.toThrow(
      `${name}: ${message.replace("@cached", "extensions.cached")}`,
    );
    const { cache } = listen();
    await run(applyCached(schemaOf(top.replace("60", "0")), cache), cache);
  });

  it("is accepted with another cache that has loaders, in either order", async () => {
    const [fields, loaders] = [listen().cache, listen().cache];
    loaders.loader({ name: "Thing", maxAge: 60, batch });
    await run(applyCached(build(), fields), fields, loaders);
    await run(applyCached(build(), fields), loaders, fields);
  });

  it("keeps it from starting with another cache that has no loaders, with the prefix that tells them apart", async () => {
    const refused = (reads: string): string =>
      `${name}: expected the cache that the schema was applied with, or one with loaders, got one without fields and loaders, while \`Query.movie\` reads through ${reads}; pass that cache, or create the loaders before the server starts`;
    const schema = applyCached(build(), listen({ prefix: "films" }).cache);
    await expect(run(schema, listen({ prefix: "shop" }).cache)).rejects.toThrow(
      refused('a cache with the prefix "films"'),
    );
    await expect(run(schema, listen({ prefix: "films" }).cache)).rejects.toThrow(refused("another cache"));
  });
});

it("Apollo Server reports nothing with a cache and a schema each for two plugins", async () => {
  const [one, two] = [listen(), listen()];
  const schema = applyCached(build(), one.cache);
  applyCached(build(), two.cache);
  // Apollo Server replaces the resolvers of its schema in place, so the second start finds other resolvers.
  for (const _ of [1, 2]) await SERVERS.cachedPlugin?.(schema, one.cache, two.cache);
  expect([...one.warnings, ...two.warnings]).toEqual([]);
});

it("Yoga reports nothing if it makes a schema for each request", async () => {
  const { cache, warnings, infos } = listen();
  const yoga = createYoga({ schema: () => applyCached(build(), cache), plugins: [useCached(cache)], logging: false });
  for (const _ of [1, 2])
    await yoga.fetch("http://yoga/graphql?query={plain}", { headers: { accept: "application/json" } });
  expect(warnings).toEqual([]);
  expect(infos.filter((line) => line.includes("cached fields"))).toHaveLength(1);
});

it("Mercurius reports resolvers and schemas that it gets after the hooks, and resolvers defined before them", async () => {
  const { cache, warnings } = listen();
  for (const isBefore of [false, true]) {
    const app = Fastify();
    await app.register(mercurius, { schema: applyCached(build(), cache) });
    if (!isBefore) cachedHooks(app, cache);
    app.graphql.defineResolvers(isBefore ? { Mutation: { rate: () => ({}) } } : { Query: { movie: () => ({}) } });
    if (isBefore) cachedHooks(app, cache);
    expect(warnings.splice(0)).toEqual([`cachedHooks: ${replaced(isBefore ? "`Mutation.rate`" : "`Query.movie`")}`]);
    if (!isBefore) app.graphql.replaceSchema(build());
    expect(warnings.splice(0)).toEqual(isBefore ? [] : [`cachedHooks: ${dropped}`]);
    app.graphql.replaceSchema(applyCached(build(), cache));
    expect(warnings).toEqual([]);
    await app.close();
  }
});

it.each(Object.keys(SERVERS))("%s is refused a second time for one server and cache", async (name) => {
  const [one, other] = [listen().cache, listen().cache];
  const schema = schemaOf("type Query { plain: Int }", { Query: { plain: () => 1 } });
  await SERVERS[name]?.(schema, one, other);
  const refused = `${name}: expected one call for each server and cache, got a second one, which would keep the first from noting what is read; pass all options to one`;
  await expect((async () => SERVERS[name]?.(schema, one, one))()).rejects.toThrow(refused);
});

it("a server says which store and prefix it uses", async () => {
  const client = new Redis(await sharedServer("redisStandalone"));
  afterCaches(() => client.quit());
  const { cache, infos } = listen({ store: redisStore({ client }), prefix: "lost-fields" });
  const sdl =
    'type Query { top: Int @cached(maxAge: 60) } type Mutation { a: Int @invalidates(tags: ["A"]) b: Int @invalidates(tags: ["A"]) }';
  await SERVERS.useCached?.(applyCached(schemaOf(sdl), cache), cache);
  expect(infos.at(-1)).toBe("1 cached field, 2 mutations invalidate, store redis, prefix lost-fields");
});

describe("a value that is not a cache", () => {
  class Cache {}
  const made = "expected a cache made by createCache(), got ";
  const CALLERS: Readonly<Record<string, (cache: never) => unknown>> = {
    applyCached: (cache) => applyCached(build(), cache),
    cachedPlugin: (cache) => cachedPlugin(cache),
    useCached: (cache) => useCached(cache),
    inspectionResolvers: (cache) => inspectionResolvers(cache, { allow: () => true }),
    cachedHooks: (cache) => cachedHooks(Fastify() as never, cache),
  };
  it.each([
    [{}, "an object"],
    [new Date(), "an instance of Date"],
    [new Map(), "an instance of Map"],
    ["redis://localhost", '"redis://localhost"'],
    [42, "42"],
    [undefined, "undefined"],
    [null, "null"],
    [new Cache(), "an instance of Cache of another copy of graphql-cached; install one copy only"],
  ])("is refused by every function with the same message: %s", (value, given) => {
    for (const [name, call] of Object.entries(CALLERS)) {
      const { code, message } = errorOf(() => call(value as never));
      expect(code).toBe("CACHED_OPTION_INVALID");
      if (value instanceof Cache) expect(message).toContain(given);
      else expect(message).toBe(`${name}: ${made}${given}`);
    }
  });
});
