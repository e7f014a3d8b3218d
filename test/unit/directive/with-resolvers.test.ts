import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLObjectType, graphqlSync, printSchema, validateSchema } from "graphql";
import { expect, it } from "vitest";
import { withResolvers } from "../../../src/core/directive/compile/with-resolvers.js";

const typeDefs = `
  directive @note(text: String) on FIELD_DEFINITION
  "Described."
  interface Node { id: ID! same: [Node!]! }
  type Movie implements Node @deprecatedType { id: ID! same: [Node!]! next(n: Int = 1): Movie of: Found }
  directive @deprecatedType on OBJECT
  type Person implements Node { id: ID! same: [Node!]! }
  union Found = Movie | Person
  enum Genre { A B }
  input Filter { genre: Genre = A inner: Filter }
  type Query { movie(filter: Filter): Movie old: Int @deprecated(reason: "so") found: [Found] }
  type Mutation { rate: Movie }
`;
const resolvers = {
  Query: { movie: () => ({ id: 1 }), found: () => [{ id: 2 }] },
  Found: { __resolveType: () => "Person" },
};

it("a rebuilt schema equals the original, descriptions included, except for the resolvers", () => {
  const schema = makeExecutableSchema({ typeDefs, resolvers });
  const rebuilt = withResolvers(schema, ({ name }) => (name === "id" ? () => "replaced" : undefined));
  expect(printSchema(rebuilt)).toBe(printSchema(schema));
  expect(validateSchema(rebuilt)).toEqual([]);
  const source = "{ movie { id } found { ... on Node { id } } }";
  expect(JSON.parse(JSON.stringify(graphqlSync({ schema: rebuilt, source }).data))).toEqual({
    movie: { id: "replaced" },
    found: [{ id: "replaced" }],
  });
  expect(JSON.parse(JSON.stringify(graphqlSync({ schema, source }).data))).toEqual({
    movie: { id: "1" },
    found: [{ id: "2" }],
  });
});

it("a rebuilt schema shares only scalars, enums and input objects with the original", () => {
  const schema = makeExecutableSchema({ typeDefs, resolvers });
  const rebuilt = withResolvers(schema, () => undefined);
  const isShared = (name: string): boolean => schema.getType(name) === rebuilt.getType(name);
  expect(["Genre", "Filter", "String"].filter(isShared)).toEqual(["Genre", "Filter", "String"]);
  expect(["Query", "Mutation", "Movie", "Person", "Node", "Found"].filter(isShared)).toEqual([]);
  const movie = rebuilt.getType("Movie") as GraphQLObjectType;
  expect(movie.getFields().next?.type).toBe(movie);
  expect(movie.getInterfaces()).toEqual([rebuilt.getType("Node")]);
  expect(movie.astNode?.directives?.map(({ name }) => name.value)).toEqual(["deprecatedType"]);
  expect(rebuilt.getPossibleTypes(rebuilt.getType("Found") as never)).toEqual([movie, rebuilt.getType("Person")]);
});
