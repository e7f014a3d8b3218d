import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import * as tools from "@graphql-tools/utils";
import { type GraphQLSchema, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { expect, it, onTestFinished } from "vitest";

interface Context {
  readonly user: string;
}
const typeDefs = /* GraphQL */ `
  type Query { movie: Movie @cached(maxAge: 60, scope: PUBLIC) }
  type Movie { id: ID! title: String }
`;

/** A transformer that runs around the resolvers of a schema, such as one of translations or masks. */
const perUser = (schema: GraphQLSchema): GraphQLSchema =>
  tools.mapSchema(schema, {
    [tools.MapperKind.OBJECT_FIELD]: (config: object, name: string) =>
      name !== "title"
        ? undefined
        : {
            ...config,
            resolve: (source: { title: string }, _: unknown, { user }: Context) => `${source.title} for ${user}`,
          },
  } as never);

function open() {
  const clock = new FakeClock();
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    logger: { warn: () => undefined, info: () => undefined },
    identify: ({ user }) => user,
    defaults: { jitter: 0, earlyRefresh: 0 },
  });
  onTestFinished(() => cache.close());
  const resolvers = { Query: { movie: () => ({ id: 1, title: "Ran" }) } };
  return { cache, plain: makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }) };
}

it("cache.execute does not share what a transformer around the applied schema returns per caller", async () => {
  const { cache, plain } = open();
  const schema = perUser(applyCached(plain, cache));
  const document = parse("{ movie { title } }");
  for (const user of ["ann", "bob"]) {
    const { data } = await cache.execute({ schema, document, contextValue: { user } });
    await settle();
    expect(JSON.stringify(data)).toBe(`{"movie":{"title":"Ran for ${user}"}}`);
  }
});

it("useCached does not share what a transformer around the applied schema returns per caller", async () => {
  const { cache, plain } = open();
  const schema = perUser(applyCached(plain, cache));
  let user = "";
  const yoga = createYoga({
    schema,
    logging: false,
    maskedErrors: false,
    context: () => ({ user }),
    plugins: [useCached(cache, { responses: true }) as never],
  });
  onTestFinished(() => void yoga.dispose());
  for (user of ["ann", "bob"]) {
    const response = await yoga.fetch("http://localhost/graphql", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: "{ movie { title } }" }),
    });
    await settle();
    expect(await response.json()).toEqual({ data: { movie: { title: `Ran for ${user}` } } });
  }
});

it("useCached does not share what a fieldResolver that a plugin sets returns per caller", async () => {
  const { cache, plain } = open();
  const schema = applyCached(plain, cache);
  let user = "";
  const yoga = createYoga({
    schema,
    logging: false,
    maskedErrors: false,
    context: () => ({ user }),
    plugins: [
      {
        onExecute({ args }: { args: Record<string, unknown> }) {
          args.fieldResolver = (
            source: Record<string, unknown>,
            _: unknown,
            context: Context,
            info: { fieldName: string },
          ) => (info.fieldName === "title" ? `${source.title} for ${context.user}` : source[info.fieldName]);
        },
      },
      useCached(cache, { responses: true }) as never,
    ],
  });
  onTestFinished(() => void yoga.dispose());
  for (user of ["ann", "bob"]) {
    const response = await yoga.fetch("http://localhost/graphql", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: "{ movie { title } }" }),
    });
    await settle();
    expect(await response.json()).toEqual({ data: { movie: { title: `Ran for ${user}` } } });
  }
});
