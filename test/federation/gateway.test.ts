import { composeServices } from "@apollo/composition";
import { getStitchedSchemaFromSupergraphSdl } from "@graphql-tools/federation";
import type { ExecutionRequest, Executor } from "@graphql-tools/utils";
import { type ExecutionResult, graphql, parse, print } from "graphql";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { type Subgraph, subgraph, subgraphTypeDefs } from "../support/subgraph.js";

const CATALOGUE = `
  type Query { products(ids: [ID!]!): [Product] }
  type Product @key(fields: "id") { id: ID!, name: String, weight: Int @shareable }
`;
const SHIPPING = `
  type Product @key(fields: "id") @cached(maxAge: 60) {
    id: ID!
    weight: Int @external
    delivery: String
    price: Int @requires(fields: "weight")
  }
`;

/** Composes the subgraphs, and returns what asks the gateway in front of them. */
function gateway(subgraphs: Readonly<Record<string, { readonly typeDefs: string; readonly instances: Subgraph[] }>>) {
  const services = Object.entries(subgraphs).map(([name, { typeDefs }]) => ({
    name,
    url: `http://${name}`,
    typeDefs: parse(subgraphTypeDefs(typeDefs)),
  }));
  const { errors, supergraphSdl = "" } = composeServices(services);
  expect(errors).toBeUndefined();
  const asked: string[] = [];
  const schema = getStitchedSchemaFromSupergraphSdl({
    supergraphSdl,
    onSubschemaConfig: (config) => {
      const { instances = [] } = subgraphs[config.name.toLowerCase()] ?? {};
      let next = 0;
      const execute = ({ document, variables = {} }: ExecutionRequest): Promise<ExecutionResult> => {
        const { schema } = instances[next++ % instances.length] as Subgraph;
        asked.push(config.name.toLowerCase());
        return graphql({ schema, source: print(document), variableValues: variables, contextValue: {} });
      };
      config.executor = execute as Executor;
    },
  });
  const ask = (source: string): Promise<ExecutionResult> => graphql({ schema, source, contextValue: {} });
  return { ask, asked, supergraphSdl };
}

it("loads entities that a gateway asks for once, whichever instance of the subgraph it asks", async () => {
  const weights = new Map([["1", 10]]);
  const products = (_: unknown, { ids }: { ids: string[] }) =>
    ids.map((id) => ({ id, name: `name of ${id}`, weight: weights.get(id) ?? 0 }));
  const catalogue = subgraph(CATALOGUE, { Query: { products } });
  const loads: unknown[] = [];
  const Product = {
    __resolveReference: (reference: { id: string; weight?: number }) => {
      loads.push([reference.id, reference.weight]);
      return reference.id === "404" ? null : { ...reference, delivery: "tomorrow" };
    },
    price: ({ weight }: { weight: number }) => weight * 2,
  };
  const store = memoryStore();
  const instances = [1, 2].map(() => subgraph(SHIPPING, { Product }, { store }));
  const { ask, asked, supergraphSdl } = gateway({
    catalogue: { typeDefs: CATALOGUE, instances: [catalogue] },
    shipping: { typeDefs: SHIPPING, instances },
  });
  expect(supergraphSdl).toContain("@cached(maxAge: 60)");

  const delivery = '{ products(ids: ["1", "2", "404"]) { name delivery } }';
  const expected = {
    products: [
      { name: "name of 1", delivery: "tomorrow" },
      { name: "name of 2", delivery: "tomorrow" },
      { name: "name of 404", delivery: null },
    ],
  };
  for (let request = 0; request < 4; request++) expect(await ask(delivery)).toEqual({ data: expected });
  expect(asked.filter((name) => name === "shipping")).toHaveLength(4);
  expect(loads).toEqual([
    ["1", undefined],
    ["2", undefined],
    ["404", undefined],
  ]);

  const priceOf = async () => (await ask('{ products(ids: ["1"]) { price } }')).data?.products;
  loads.length = 0;
  expect(await priceOf()).toEqual([{ price: 20 }]);
  weights.set("1", 15);
  expect(await priceOf()).toEqual([{ price: 30 }]);
  expect(await priceOf()).toEqual([{ price: 30 }]);
  expect(loads).toEqual([
    ["1", 10],
    ["1", 15],
  ]);

  loads.length = 0;
  await instances[0]?.cache.invalidate({ coordinate: "Product.__resolveReference", source: { id: 1 } });
  expect(await priceOf()).toEqual([{ price: 30 }]);
  await ask(delivery);
  expect(loads).toEqual([
    ["1", 15],
    ["1", undefined],
  ]);
});
