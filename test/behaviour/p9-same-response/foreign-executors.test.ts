import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import {
  type GraphQLField,
  type GraphQLFieldConfig,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  graphql,
} from "graphql";
import { applyCached, cachedTypeDefs, createCache, resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";

const typeDefs = /* GraphQL */ `
  type Query {
    film(id: ID!): Film @cached(maxAge: 60)
    top: Int
  }
  type Film {
    id: ID!
    stars: Int
  }
  type Mutation {
    rate(id: ID!): Film @invalidates(tags: ["Film"])
    remove(id: ID!): Film
  }
`;

/** As makeGrafastSchema makes it: a field has a plan in its extensions, and no resolver. */
const withPlans = (planned: readonly string[], grafast: object = { plan: () => undefined }): GraphQLSchema =>
  mapSchema(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs] }), {
    [MapperKind.OBJECT_FIELD]: (config: GraphQLFieldConfig<unknown, unknown>, name: string) =>
      planned.includes(name) ? { ...config, extensions: { ...config.extensions, grafast } } : config,
  });

const refusal = (schema: GraphQLSchema, options = {}): string => {
  try {
    applyCached(schema, createCache({ defaultScope: "PUBLIC" }), options);
  } catch (error) {
    return (error as Error).message;
  }
  return "";
};

describe("a field that Grafast answers by a plan", () => {
  it("is refused if it is cached, or invalidates", () => {
    const answered = "Grafast answers the field by its plan (`extensions.grafast`), which a resolver would replace";
    expect(refusal(withPlans(["film"]))).toContain(
      `@cached on \`Query.film\`: ${answered}; use cache.loader in the step`,
    );
    expect(refusal(withPlans(["film"], { subscribePlan: () => undefined }))).toContain(answered);
    expect(refusal(withPlans(["rate"]))).toContain(
      `@invalidates on \`Mutation.rate\`: ${answered}; call cache.invalidateTags`,
    );
    expect(refusal(withPlans(["remove"]), { entityTags: true })).toContain(
      `entityTags on \`Mutation.remove\`: ${answered}`,
    );
  });

  it("is accepted if the cache does not concern it", async () => {
    const schema = withPlans(["top", "remove", "stars"]);
    expect(refusal(schema)).toBe("");
    const applied = applyCached(schema, createCache({ defaultScope: "PUBLIC" }));
    expect(applied.getQueryType()?.getFields().top?.resolve).toBeUndefined();
    expect(refusal(withPlans(["film"], {}))).toBe("");
  });
});

describe("a root field that reads a property, as in a schema whose resolvers are elsewhere", () => {
  function defaultMergedResolver(
    parent: object | undefined,
    _: unknown,
    __: unknown,
    info: { fieldName: string },
  ): unknown {
    return Reflect.get(parent ?? {}, info.fieldName);
  }

  it("is reported once if graphql-tools has made it, in a stitched schema as well", async () => {
    for (const extensions of [{}, { stitchingInfo: {} }]) {
      const lines: string[] = [];
      const cache = createCache({
        defaultScope: "PUBLIC",
        logger: { info: () => undefined, warn: (line) => void lines.push(line) },
      });
      const source = makeExecutableSchema({
        typeDefs: [cachedTypeDefs, typeDefs],
        resolvers: { Query: { film: defaultMergedResolver }, Mutation: { rate: () => null } },
      });
      source.extensions = extensions;
      const schema = applyCached(source, cache);
      expect(await graphql({ schema, source: "{ film(id: 7) { id } }" })).toEqual({ data: { film: null } });
      expect(lines.filter((line) => line.includes("without a resolver"))).toEqual([
        expect.stringContaining(
          "fields without a resolver, which read a property of their parent, so that nothing is saved: `Query.film`",
        ),
      ]);
      await cache.close();
    }
  });
});

describe("an executor whose `info` inherits what is the same for all calls, as Grafast's does", () => {
  it("gets the values of cached fields, whose resolvers see all of `info`", async () => {
    let loads = 0;
    const seen: unknown[] = [];
    const cache = createCache({ defaultScope: "PUBLIC" });
    const schema = applyCached(
      makeExecutableSchema({
        typeDefs: [cachedTypeDefs, typeDefs],
        resolvers: {
          Query: {
            film: (_: unknown, { id }: { id: string }, __: unknown, info: GraphQLResolveInfo) => {
              loads++;
              seen.push(info.fieldName, String(info.parentType), info.schema.getQueryType()?.name);
              resultControl(info).set({ maxAge: 30 });
              return { id };
            },
          },
          Mutation: { rate: () => null },
        },
      }),
      cache,
    );
    const field = schema.getQueryType()?.getFields().film as GraphQLField<unknown, unknown>;
    const { resolve } = field;
    field.resolve = (source, args, context, { variableValues, rootValue, path, ...shared }) =>
      resolve?.(source, args, context, Object.assign(Object.create(shared), { variableValues, rootValue, path }));
    for (let round = 0; round < 2; round++) {
      const { data, errors } = await graphql({ schema, source: "{ film(id: 7) { id } }", contextValue: {} });
      expect(errors).toBeUndefined();
      expect(JSON.parse(JSON.stringify(data))).toEqual({ film: { id: "7" } });
      await settle();
    }
    expect([loads, ...seen]).toEqual([1, "film", "Query", "Query"]);
    await cache.close();
  });
});
