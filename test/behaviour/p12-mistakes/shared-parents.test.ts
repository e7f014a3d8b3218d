import { graphql } from "graphql";
import { applyCached } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";

type Parent = Readonly<Record<string, unknown>>;

/** Returns the warnings about parents, after both parents were asked for once in each request of `queries`, which run at once, and then again. */
async function warningsFor(
  parents: readonly Parent[],
  { queries = ["{ one { price offer { amount } } other { price offer { amount } } }"], key = "", warn = true } = {},
): Promise<string[]> {
  const { cache, warnings } = listen({ privacy: { warnOnContextReads: warn } });
  const typeDefs = `
    type Query { one: Item other: Item }
    type Item { id: ID! price: Int @cached(maxAge: 60 ${key}) offer: Offer @cached(maxAge: 60 ${key}) }
    type Offer { amount: Int }`;
  const resolvers = {
    Query: { one: () => parents[0], other: () => parents[1] },
    Item: { price: async () => 1, offer: async () => ({ amount: 1 }) },
  };
  const schema = applyCached(schemaOf(typeDefs, resolvers), cache);
  for (let round = 0; round < 2; round++)
    await Promise.all(queries.map((source) => graphql({ schema, source, contextValue: {} })));
  await cache.close();
  return warnings.filter((line) => line.includes("parents"));
}

const line = (coordinate: string, ...names: string[]): string =>
  `\`${coordinate}\`: one value was loaded for parents with the same key that differ in ${names.map((name) => `\`${name}\``).join(", ")}; ` +
  `if it depends on ${names.length === 1 ? "that" : "these"}, add ${names.map((name) => `\`$source.${name}\``).join(", ")} to the \`key\` of the field`;

const OF_SHOPS = [1, 2].map((shopId) => ({ id: 7, shopId }));

describe("parents with one key that share a load", () => {
  it.each([
    ["a property", { shopId: 1 }, { shopId: 2 }, ["shopId"]],
    ["an object with another id", { shop: { id: 1 } }, { shop: { id: 2 } }, ["shop"]],
    ["two properties", { shopId: "a", currency: "EUR" }, { shopId: "b", currency: "USD" }, ["shopId", "currency"]],
  ])("are reported once for a field if they differ in %s", async (_what, one, other, names) => {
    const parents = [one, other].map((own) => ({ id: 7, ...own }));
    expect(await warningsFor(parents)).toEqual([line("Item.price", ...names), line("Item.offer", ...names)]);
  });

  it("are reported if they belong to two requests of one tick", async () => {
    const queries = ["{ one { price } }", "{ other { price } }"];
    expect(await warningsFor(OF_SHOPS, { queries })).toEqual([line("Item.price", "shopId")]);
  });

  it.each([
    ["are one object", { id: 7, shopId: 1 }, { id: 7, shopId: 1 }],
    ["spell one id in two ways", { id: 7 }, { id: "7" }],
    ["have other keys", { id: 7, shopId: 1 }, { id: 8, shopId: 2 }],
    ["have other properties", { id: 7, shopId: 1 }, { id: 7, seller: 2 }],
    ["have objects that are equal", { id: 7, shop: { id: 1 } }, { id: 7, shop: { id: 1 } }],
  ])("are not reported if they %s", async (_what, one, other) => {
    expect(await warningsFor([one, other])).toEqual([]);
  });

  it("are not reported in production, nor once the key tells them apart", async () => {
    expect(await warningsFor(OF_SHOPS, { warn: false })).toEqual([]);
    // The schema does not have the property, so the parent is keyed as a whole here.
    expect(await warningsFor(OF_SHOPS, { key: 'key: ["$source"]' })).toEqual([]);
  });
});
