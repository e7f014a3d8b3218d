import { settle } from "@graphql-cached/testing";
import { MapperKind, mapSchema } from "@graphql-tools/utils";
import {
  type GraphQLField,
  type GraphQLFieldConfig,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  graphql,
} from "graphql";
import { applyCached, resultControl } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { errorOf, listen, schemaOf } from "../../support/listen.js";
import { memoryWorld } from "../../support/world.js";

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
  mapSchema(schemaOf(typeDefs), {
    [MapperKind.OBJECT_FIELD]: (config: GraphQLFieldConfig<unknown, unknown>, name: string) =>
      planned.includes(name) ? { ...config, extensions: { ...config.extensions, grafast } } : config,
  });

const apply = (schema: GraphQLSchema, options = {}): GraphQLSchema => applyCached(schema, listen().cache, options);
const refusal = (schema: GraphQLSchema, options = {}): string => errorOf(() => apply(schema, options)).message;

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

  it("is accepted if the cache does not concern it", () => {
    const schema = withPlans(["top", "remove", "stars"]);
    expect(apply(schema).getQueryType()?.getFields().top?.resolve).toBeUndefined();
    expect(() => apply(withPlans(["film"], {}))).not.toThrow();
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
      const { cache, warnings } = listen();
      const source = schemaOf(typeDefs, {
        Query: { film: defaultMergedResolver },
        Mutation: { rate: () => null },
      });
      source.extensions = extensions;
      const schema = applyCached(source, cache);
      expect(await graphql({ schema, source: "{ film(id: 7) { id } }" })).toEqual({ data: { film: null } });
      expect(warnings.filter((line) => line.includes("without a resolver"))).toEqual([
        expect.stringContaining(
          "fields without a resolver, which read a property of their parent, so that nothing is saved: `Query.film`",
        ),
      ]);
    }
  });
});

describe("an executor whose `info` inherits what is the same for all calls, as Grafast's does", () => {
  it("gets the values of cached fields, whose resolvers see all of `info`", async () => {
    let loads = 0;
    const seen: unknown[] = [];
    const film = (_: unknown, { id }: { id: string }, __: unknown, info: GraphQLResolveInfo) => {
      loads++;
      seen.push(info.fieldName, String(info.parentType), info.schema.getQueryType()?.name);
      resultControl(info).set({ maxAge: 30 });
      return { id };
    };
    const schema = apply(schemaOf(typeDefs, { Query: { film }, Mutation: { rate: () => null } }));
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
  });
});

interface Hint {
  scope?: string | undefined;
  restrict?(): void;
  setPrivate?(): void;
}

/** Asks twice for a field whose `info` has the cache hint of another server than Apollo, and returns what was answered. */
async function askTwice(hintOf: () => Hint | null, read: (hint: Hint) => unknown): Promise<readonly unknown[]> {
  let loads = 0;
  const top = (...[, , , info]: [unknown, unknown, unknown, { cacheControl: { cacheHint: Hint } }]) => {
    read(info.cacheControl.cacheHint);
    return ++loads;
  };
  const typeDefs = "type Query { top: Int @cached(maxAge: 60) }";
  const { cache, schema, ask } = memoryWorld().process(typeDefs, { Query: { top } });
  const field = schema.getQueryType()?.getFields().top;
  const resolve = field?.resolve;
  if (field === undefined || resolve === undefined) throw new Error("expected a field with a resolver");
  field.resolve = (source, args, context, info) => {
    const cacheControl = { cacheHint: hintOf(), setCacheHint: () => undefined };
    return resolve(source, args, context, Object.assign({}, info, { cacheControl }) as unknown as GraphQLResolveInfo);
  };
  const answers: unknown[] = [];
  for (let nth = 0; nth < 2; nth++) {
    const { data, errors } = await ask("{ top }", {});
    answers.push(errors?.[0]?.message ?? data?.top);
    await cache.settled();
  }
  return answers;
}

it("a value is not shared if a method of the server's own has made its hint PRIVATE", async () => {
  const hintOf = (): Hint => ({
    scope: undefined,
    setPrivate() {
      this.scope = "PRIVATE";
    },
  });
  expect(await askTwice(hintOf, (hint) => hint.setPrivate?.())).toEqual([1, 2]);
});

it("a frozen hint is read as any other, and a hint that is null is none", async () => {
  const frozen = (): Hint => Object.freeze({ restrict: () => undefined });
  expect(await askTwice(frozen, (hint) => hint.restrict?.())).toEqual([1, 1]);
  const read = (hint: Hint | null): unknown => hint?.scope;
  expect(await askTwice(() => null, read)).toEqual([1, 1]);
});
