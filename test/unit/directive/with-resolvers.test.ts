import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLObjectType, graphqlSync, printSchema, validateSchema } from "graphql";
import { expect, it } from "vitest";
import { withResolvers } from "../../../src/directive/with-resolvers.js";

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

it("a schema that is made anew is the same, down to its descriptions, apart from the resolvers", () => {
  const schema = makeExecutableSchema({ typeDefs, resolvers });
  const made = withResolvers(schema, ({ name }) => (name === "id" ? () => "made" : undefined));
  expect(printSchema(made)).toBe(printSchema(schema));
  expect(validateSchema(made)).toEqual([]);
  const source = "{ movie { id } found { ... on Node { id } } }";
  expect(JSON.parse(JSON.stringify(graphqlSync({ schema: made, source }).data))).toEqual({
    movie: { id: "made" },
    found: [{ id: "made" }],
  });
  expect(JSON.parse(JSON.stringify(graphqlSync({ schema, source }).data))).toEqual({
    movie: { id: "1" },
    found: [{ id: "2" }],
  });
});

it("a schema that is made anew leads to no type of the old one but scalars, enums and input objects", () => {
  const schema = makeExecutableSchema({ typeDefs, resolvers });
  const made = withResolvers(schema, () => undefined);
  const isShared = (name: string): boolean => schema.getType(name) === made.getType(name);
  expect(["Genre", "Filter", "String"].filter(isShared)).toEqual(["Genre", "Filter", "String"]);
  expect(["Query", "Mutation", "Movie", "Person", "Node", "Found"].filter(isShared)).toEqual([]);
  const movie = made.getType("Movie") as GraphQLObjectType;
  expect(movie.getFields().next?.type).toBe(movie);
  expect(movie.getInterfaces()).toEqual([made.getType("Node")]);
  expect(movie.astNode?.directives?.map(({ name }) => name.value)).toEqual(["deprecatedType"]);
  expect(made.getPossibleTypes(made.getType("Found") as never)).toEqual([movie, made.getType("Person")]);
});
