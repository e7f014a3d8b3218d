import { ApolloServer } from "@apollo/server";
import { buildSubgraphSchema } from "@apollo/subgraph";
import { addResolversToSchema, makeExecutableSchema, mergeSchemas } from "@graphql-tools/schema";
import { stitchSchemas } from "@graphql-tools/stitch";
import { getDirective, MapperKind, mapSchema } from "@graphql-tools/utils";
import { wrapSchema } from "@graphql-tools/wrap";
import Fastify from "fastify";
import {
  defaultFieldResolver,
  extendSchema,
  GraphQLSchema,
  graphql,
  isObjectType,
  lexicographicSortSchema,
  parse,
} from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { redisStore } from "graphql-cached/redis";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { Redis } from "ioredis";
import { mercurius } from "mercurius";
import { describe, expect, it } from "vitest";
import { applyMiddleware, rule, shield } from "../../support/graphql-shield.js";
import { sharedServer } from "../../support/shared-servers.js";
import { subgraphTypeDefs } from "../../support/subgraph.js";

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
const build = (): GraphQLSchema => makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });

function createLogging() {
  const warnings: string[] = [];
  const infos: string[] = [];
  const logger = {
    info: (line: string) => void (line.includes("recommend") || infos.push(line)),
    warn: (line: string) => void warnings.push(line),
  };
  return { cache: createCache({ defaultScope: "PUBLIC", logger }), warnings, infos };
}

/** Starts a server with a schema, and stops it. */
const SERVERS: Readonly<Record<string, (schema: GraphQLSchema, cache: Cache) => Promise<unknown>>> = {
  cachedPlugin: async (schema, cache) => {
    const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache)] });
    await server.start();
    await server.executeOperation({ query: "{ plain }" });
    await server.stop();
  },
  useCached: async (schema, cache) => createYoga({ schema, plugins: [useCached(cache)], logging: false }),
  cachedHooks: async (schema, cache) => {
    const app = Fastify();
    await app.register(mercurius, { schema });
    cachedHooks(app, cache);
    await app.close();
  },
};

const ALL = "`Query.movie`, `Query.top`, `Mutation.rate`, `Movie.stars`";
const dropped = (caller: string): string =>
  `graphql-cached: ${caller}: expected the schema that applyCached returned, got another one, in which ${ALL} do not use the cache; pass the result of applyCached to the server`;
const replaced = (caller: string, fields: string): string =>
  `graphql-cached: ${caller}: expected the resolvers of applyCached, got others for ${fields}, which do not use the cache; set resolvers before applyCached, so that it comes last`;

for (const [name, start] of Object.entries(SERVERS))
  describe(`a schema that is given to ${name}`, () => {
    it("is reported once if the result of applyCached was dropped", async () => {
      const { cache, warnings } = createLogging();
      const schema = build();
      applyCached(schema, cache);
      await start(schema, cache);
      await start(schema, cache);
      expect(warnings).toEqual([dropped(name)]);
    });

    it("is reported if it was built again from the same resolvers", async () => {
      const { cache, warnings } = createLogging();
      applyCached(build(), cache);
      await start(build(), cache);
      expect(warnings).toEqual([dropped(name)]);
    });

    it("is reported if resolvers were added after applyCached, with the fields that they concern", async () => {
      const { cache, warnings } = createLogging();
      const schema = addResolversToSchema({
        schema: applyCached(build(), cache),
        resolvers: { Query: { movie: () => ({ id: 1 }) }, Mutation: resolvers.Mutation },
      });
      await start(schema, cache);
      expect(warnings).toEqual([replaced(name, "`Query.movie`, `Mutation.rate`")]);
    });

    it("is reported if resolvers were assigned to its fields, or removed from them", async () => {
      const { cache, warnings } = createLogging();
      const schema = applyCached(build(), cache);
      const { top, movie } = schema.getQueryType()?.getFields() ?? {};
      Object.assign(top as object, { resolve: resolvers.Query.top });
      Object.assign(movie as object, { resolve: undefined });
      await start(schema, cache);
      expect(warnings).toEqual([replaced(name, "`Query.movie`, `Query.top`")]);
    });

    it("is not reported if it is the result of applyCached, also after requests, in another server", async () => {
      const { cache, warnings } = createLogging();
      const schema = applyCached(build(), cache);
      await start(schema, cache);
      await graphql({ schema, source: "{ top { id stars } }" });
      await start(schema, cache);
      expect(warnings).toEqual([]);
    });

    it.each(Object.keys(TRANSFORMS))(
      "is not reported if transforms call the resolvers of the cache: %s",
      async (what) => {
        const { cache, warnings } = createLogging();
        const schema = (TRANSFORMS[what] as (typeof TRANSFORMS)[string])(applyCached(build(), cache));
        await start(schema, cache);
        expect(warnings).toEqual([]);
      },
    );

    it("is not reported if its fields of these names have no policy", async () => {
      const { cache, warnings } = createLogging();
      applyCached(build(), cache);
      await start(makeExecutableSchema({ typeDefs: "type Query { movie(id: ID!): Int plain: Int }" }), cache);
      expect(warnings).toEqual([]);
    });

    it("has one line for information, which says what is cached and where", async () => {
      const { cache, infos } = createLogging();
      cache.loader({ name: "Movie", maxAge: 60, batch: async (ids: readonly number[]) => ids });
      const schema = applyCached(build(), cache);
      infos.length = 0;
      await start(schema, cache);
      await start(schema, cache);
      expect(infos).toEqual([
        "graphql-cached: 3 cached fields, 1 loader, 1 mutation invalidates, store memory (this process only), prefix gc",
      ]);
    });
  });

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
  mergeSchemas: (schema) =>
    mergeSchemas({ schemas: [schema, makeExecutableSchema({ typeDefs: "type Query { other: Int }" })] }),
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

describe("a server that is not to be reported", () => {
  it("has another schema of the same cache, in which other fields are cached", async () => {
    const { cache, warnings } = createLogging();
    applyCached(build(), cache);
    const top = typeDefs.replace('@cached(maxAge: 60, tags: ["Movie:{$args.id}"])', "");
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, top], resolvers }), cache);
    warnings.length = 0;
    for (const start of Object.values(SERVERS)) await start(schema, cache);
    expect(warnings).toEqual([]);
  });

  it("has adapters for two caches, of which each has a schema of its own", async () => {
    const one = createLogging();
    const two = createLogging();
    const schema = applyCached(build(), one.cache);
    applyCached(build(), two.cache);
    const server = (): ApolloServer =>
      new ApolloServer({ schema, plugins: [cachedPlugin(one.cache), cachedPlugin(two.cache)] });
    // Apollo Server replaces the resolvers of its schema in place, so the second start finds other resolvers.
    for (const started of [server(), server()]) {
      await started.start();
      await started.stop();
    }
    expect([...one.warnings, ...two.warnings]).toEqual([]);
  });

  it("is a federation subgraph, and a gateway in the same process with the schema of all", async () => {
    const { cache, warnings } = createLogging();
    const subgraph = applyCached(
      buildSubgraphSchema({ typeDefs: parse(subgraphTypeDefs(typeDefs)), resolvers }),
      cache,
    );
    const gateway = stitchSchemas({ subschemas: [{ schema: subgraph }] });
    for (const start of Object.values(SERVERS)) {
      await start(subgraph, cache);
      await start(gateway, cache);
    }
    expect(warnings).toEqual([]);
  });

  it("never got applyCached, and has no policies", async () => {
    const { cache, warnings } = createLogging();
    const schema = makeExecutableSchema({ typeDefs: "type Query { plain: Int }" });
    for (const start of Object.values(SERVERS)) await start(schema, cache);
    expect(warnings).toEqual([]);
  });

  it("is one of Yoga that makes a schema for each request", async () => {
    const { cache, warnings, infos } = createLogging();
    const yoga = createYoga({ schema: () => applyCached(build(), cache), plugins: [useCached(cache)], logging: false });
    infos.length = 0;
    for (let request = 0; request < 2; request++)
      await yoga.fetch("http://yoga/graphql?query={plain}", { headers: { accept: "application/json" } });
    expect(warnings).toEqual([]);
    expect(infos.filter((line) => line.includes("cached fields"))).toHaveLength(1);
  });
});

describe("a server of Mercurius", () => {
  it("reports resolvers and schemas that it gets after the hooks", async () => {
    const { cache, warnings } = createLogging();
    const app = Fastify();
    await app.register(mercurius, { schema: applyCached(build(), cache) });
    cachedHooks(app, cache);
    app.graphql.defineResolvers({ Query: { movie: () => ({ id: 1 }) } });
    expect(warnings).toEqual([replaced("cachedHooks", "`Query.movie`")]);
    app.graphql.replaceSchema(build());
    expect(warnings.slice(1)).toEqual([dropped("cachedHooks")]);
    app.graphql.replaceSchema(applyCached(build(), cache));
    expect(warnings).toHaveLength(2);
    await app.close();
  });

  it("reports resolvers that were defined before the hooks", async () => {
    const { cache, warnings } = createLogging();
    const app = Fastify();
    await app.register(mercurius, { schema: applyCached(build(), cache) });
    app.graphql.defineResolvers({ Mutation: { rate: () => ({ id: 1 }) } });
    cachedHooks(app, cache);
    expect(warnings).toEqual([replaced("cachedHooks", "`Mutation.rate`")]);
    await app.close();
  });
});

it("says which store and prefix a server uses", async () => {
  const infos: string[] = [];
  const client = new Redis(await sharedServer("redisStandalone"));
  const logger = { info: (line: string) => void infos.push(line), warn: () => undefined };
  const cache = createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: "lost-fields", logger });
  const sdl =
    'type Query { top: Int @cached(maxAge: 60) } type Mutation { a: Int @invalidates(tags: ["A"]) b: Int @invalidates(tags: ["A"]) }';
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, sdl] }), cache);
  createYoga({ schema, plugins: [useCached(cache)], logging: false });
  expect(infos.at(-1)).toBe("graphql-cached: 1 cached field, 2 mutations invalidate, store redis, prefix lost-fields");
  await cache.close();
  await client.quit();
});
