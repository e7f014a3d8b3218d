import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLObjectType, parse, validate } from "graphql";
import { applyCached, createCache } from "graphql-cached";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../src/core/parts.js";
import { OperationPlanner } from "../../src/core/responses/operation-plan.js";
import { HINTS, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { movie(id: ID!): Movie @cached(maxAge: 600) @cacheControl(maxAge: 600) }
  type Movie { id: ID! title: String year: Int }
`;

describe.each(SERVERS)("on %s", (server) => {
  it("a response is invalidated with an entry of a field that looks ahead", async () => {
    const source = { title: "Ran" };
    const resolvers = {
      Query: {
        movie: (
          _: unknown,
          { id }: { id: string },
          __: unknown,
          info: { fieldNodes: { selectionSet?: { selections: readonly { name: { value: string } }[] } }[] },
        ) => {
          const names = info.fieldNodes.flatMap(
            ({ selectionSet }) => selectionSet?.selections.map(({ name }) => name.value) ?? [],
          );
          return {
            id,
            ...(names.includes("title") ? { title: source.title } : {}),
            ...(names.includes("year") ? { year: 1985 } : {}),
          };
        },
      },
    };
    const { ask, cache } = openSite({ typeDefs, resolvers, server });
    const queries = ["{ movie(id: 1) { title } }", "{ movie(id: 1) { year title } }"];
    for (let time = 0; time < 3; time++) for (const query of queries) await ask(query);
    source.title = "Ran, restored";
    await cache.invalidate({ coordinate: "Query.movie", args: { id: 1 } });
    for (const query of queries) expect(JSON.stringify((await ask(query)).data)).toContain("restored");
  });
});

it("the plan of a query over an interface looks at each type once for a field, however often it is selected", async () => {
  const types = Array.from(
    { length: 300 },
    (_, nth) => `type T${nth} implements Node { id: ID! name: String node: Node nodes: [Node!] }`,
  );
  const schemaDefs = `interface Node { id: ID! name: String node: Node nodes: [Node!] } type Query { node: Node } ${types.join("\n")}`;
  const cache = createCache({ defaultScope: "PUBLIC", logger: { warn: () => undefined, info: () => undefined } });
  onTestFinished(() => cache.close());
  const resolverless = makeExecutableSchema({ typeDefs: [HINTS, schemaDefs], resolvers: {} });
  const schema = applyCached(resolverless, cache);
  const planner = new OperationPlanner(partsOf(cache, "test"));
  const fields = Array.from({ length: 2_000 }, (_, nth) => `a${nth}: name`).join(" ");
  const fragments = Array.from({ length: 200 }, (_, nth) => `...on T${nth} { b${nth}: node { ...F } }`).join(" ");
  const document = parse(`{ node { ${fragments} ...F } } fragment F on Node { ${fields} node { id } }`);
  expect(validate(schema, document)).toEqual([]);
  const looks = vi.spyOn(GraphQLObjectType.prototype, "getFields");
  onTestFinished(() => looks.mockRestore());
  planner.plan({ schema, document });
  // The fields `name`, `node` and `id` of 300 types, `node` of 200 types in fragments, and that of Query.
  expect(looks).toHaveBeenCalledTimes(3 * 300 + 200 + 1);
});
