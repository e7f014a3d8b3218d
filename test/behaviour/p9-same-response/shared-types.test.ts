import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLID, GraphQLNonNull, GraphQLObjectType, GraphQLSchema, graphql, isInterfaceType } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";

it("a schema with the types of an applied one, and one more member of an interface, is served hits of that member", async () => {
  const warnings: string[] = [];
  const logger = { info: () => undefined, warn: (line: string) => warnings.push(line) };
  const cache = createCache({ store: memoryStore(), logger });
  onTestFinished(() => cache.close());
  const loads: string[] = [];
  const applied = applyCached(
    makeExecutableSchema({
      typeDefs: [
        cachedTypeDefs,
        "interface Node { id: ID! } type Film implements Node { id: ID! } type Query { node(id: ID!): Node @cached(maxAge: 60) }",
      ],
      resolvers: {
        Query: {
          node: (_: unknown, { id }: { id: string }) => {
            loads.push(id);
            return { id, __typename: id };
          },
        },
      },
    }),
    cache,
  );
  const node = applied.getType("Node");
  if (!isInterfaceType(node)) throw new Error("expected an interface");
  const fields = { id: { type: new GraphQLNonNull(GraphQLID) } };
  const person = new GraphQLObjectType({ name: "Person", interfaces: [node], fields });
  const { types, ...config } = applied.toConfig();
  const larger = new GraphQLSchema({ ...config, types: [...types, person] });
  const ask = async (schema: GraphQLSchema, id: string): Promise<unknown> => {
    const answer = await graphql({ schema, source: `{ node(id: "${id}") { __typename id } }`, contextValue: {} });
    await cache.settled();
    return answer.data;
  };
  // The checks of the interface are compiled for the schema that is asked first.
  for (let nth = 0; nth < 2; nth++)
    expect(await ask(applied, "Film")).toEqual({ node: { __typename: "Film", id: "Film" } });
  for (let nth = 0; nth < 2; nth++)
    expect(await ask(larger, "Person")).toEqual({ node: { __typename: "Person", id: "Person" } });
  expect(loads).toEqual(["Film", "Person"]);
  expect(warnings).toEqual([]);
});
