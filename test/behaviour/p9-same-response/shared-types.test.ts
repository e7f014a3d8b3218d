import { GraphQLID, GraphQLNonNull, GraphQLObjectType, GraphQLSchema, graphql, isInterfaceType } from "graphql";
import { applyCached } from "graphql-cached";
import { expect, it } from "vitest";
import { collectGarbage } from "../../support/collect-garbage.js";
import { listen, schemaOf } from "../../support/listen.js";

/** Returns a schema with the types of another one, and `Person`, which is one more member of its interface `Node`. */
function withPerson(schema: GraphQLSchema): { readonly larger: GraphQLSchema; readonly person: GraphQLObjectType } {
  const node = schema.getType("Node");
  if (!isInterfaceType(node)) throw new Error("expected an interface");
  const fields = { id: { type: new GraphQLNonNull(GraphQLID) } };
  const person = new GraphQLObjectType({ name: "Person", interfaces: [node], fields });
  const { types, ...config } = schema.toConfig();
  return { larger: new GraphQLSchema({ ...config, types: [...types, person] }), person };
}

const NODES =
  "interface Node { id: ID! } type Film implements Node { id: ID! } type Query { node(id: ID!): Node @cached(maxAge: 60) }";

it("a schema with the types of an applied one, and one more member of an interface, is served hits of that member", async () => {
  const { cache, warnings } = listen();
  const loads: string[] = [];
  const node = (_: unknown, { id }: { id: string }) => (loads.push(id), { id, __typename: id });
  const applied = applyCached(schemaOf(NODES, { Query: { node } }), cache);
  const { larger } = withPerson(applied);
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

it("what is known of members of an interface goes with the schemas that have brought them", async () => {
  const { cache } = listen();
  const resolvers = { Query: { node: (_: unknown, { id }: { id: string }) => ({ id, __typename: "Person" }) } };
  const applied = applyCached(schemaOf(NODES, resolvers), cache);
  const members: WeakRef<object>[] = [];
  const askOwnSchema = async (nth: number): Promise<void> => {
    const { larger: schema, person } = withPerson(applied);
    members.push(new WeakRef(person));
    const answer = await graphql({ schema, source: `{ node(id: "${nth}") { id } }`, contextValue: {} });
    expect(answer).toEqual({ data: { node: { id: String(nth) } } });
    await cache.settled();
  };
  for (let nth = 0; nth < 20; nth++) await askOwnSchema(nth);
  for (let turn = 0; turn < 5; turn++) {
    await new Promise(setImmediate);
    collectGarbage();
  }
  expect(members.filter((member) => member.deref() !== undefined).length).toBeLessThan(5);
});

it("an object whose resolveType returns a type in place of its name is not stored, since no hit could be answered", async () => {
  const { cache, warnings } = listen();
  let loads = 0;
  const schema: GraphQLSchema = applyCached(
    schemaOf(NODES, {
      Query: { node: () => ({ id: ++loads }) },
      Node: { __resolveType: () => schema.getType("Film") as never },
    }),
    cache,
  );
  for (let nth = 0; nth < 2; nth++) {
    const { errors } = await graphql({ schema, source: "{ node(id: 1) { id } }", contextValue: {} });
    expect(errors).toHaveLength(1);
    await cache.settled();
  }
  expect(loads).toBe(2);
  expect(warnings).toEqual([expect.stringContaining("the value is not cached")]);
});
