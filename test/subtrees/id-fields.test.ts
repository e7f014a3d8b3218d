import { describe, expect, it } from "vitest";
import { openSubtrees } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    shop: Shop @cached(maxAge: 60, subtree: true)
    items: [Item!] @cached(maxAge: 0)
  }
  type Mutation { price(shop: ID!, sku: ID!): Item }
  union Thing = Item | Shop
  type Shop { code: ID! best: Item part: Part things: [Thing!] items: [Item!] }
  type Item @cached(maxAge: 60, subtree: true) {
    shop: ID!
    sku: ID!
    title: String
  }
  type Part { shop: ID! sku: ID! mine: String @cached(maxAge: 0) }
`;
const idFields = { Shop: "code", Item: ["shop", "sku"], Part: ["shop", "sku"] };

function open() {
  const counts = { shop: 0, titles: [] as string[] };
  let skus = ["a", "b"];
  const items = () => skus.map((sku) => ({ __typename: "Item", shop: "s", sku }));
  const { ask, cache } = openSubtrees({
    typeDefs,
    resolvers: {
      Query: {
        shop: () => {
          counts.shop++;
          return { code: "s", best: items()[0], things: items(), items: items() };
        },
        items,
      },
      Shop: { part: () => items()[0] },
      Item: {
        title: ({ sku }: { sku: string }) => {
          counts.titles.push(sku);
          return `Title of ${sku}`;
        },
      },
      Part: {
        mine: ({ sku }: { sku: string }, _: unknown, { user }: { user?: string }) => `${user}'s ${sku}`,
      },
      Mutation: { price: (_: unknown, item: { shop: string; sku: string }) => item },
    },
    applied: { entityTags: true, idFields },
  });
  const replace = (given: string[]): void => {
    skus = given;
  };
  return { ask, cache, counts, replace };
}

describe("subtrees of a schema with idFields", () => {
  it("have the tags of their objects, also in unions, and no client sees what was asked for them", async () => {
    const { ask, cache, counts } = open();
    const query = "{ shop { best { title } things { ... on Item { title } } } }";
    const titles = ["Title of a", "Title of b"].map((title) => ({ title }));
    expect(await ask(query)).toEqual({ data: { shop: { best: titles[0], things: titles } } });
    expect(await ask(query)).toEqual({ data: { shop: { best: titles[0], things: titles } } });
    expect(counts.shop).toBe(1);
    await ask('mutation { price(shop: "s", sku: "c") { title } }');
    await cache.invalidateTags(["Item:a", "Item:a:s"]);
    await ask(query);
    expect(counts.shop).toBe(1);
    await ask('mutation { price(shop: "s", sku: "b") { title } }');
    await ask(query);
    expect(counts.shop).toBe(2);
    for (const tag of ["Shop:s", "Item"]) {
      await cache.invalidateTags([tag]);
      await ask(query);
    }
    expect(counts.shop).toBe(4);
  });

  it("fill holes of the same objects only", async () => {
    const { ask, replace } = open();
    const query = "{ shop { part { mine } } }";
    expect(await ask(query, { user: "Ann" })).toEqual({ data: { shop: { part: { mine: "Ann's a" } } } });
    expect(await ask(query, { user: "Ben" })).toEqual({ data: { shop: { part: { mine: "Ben's a" } } } });
    replace(["b", "a"]);
    expect(await ask(query, { user: "Ben" })).toEqual({ data: { shop: { part: { mine: "Ben's b" } } } });
  });

  it("have objects of lists as entries by all of the fields", async () => {
    const { ask, cache, counts, replace } = open();
    await ask("{ items { title } }");
    replace(["b", "a", "c"]);
    expect(await ask("{ items { title } }")).toEqual({
      data: { items: ["b", "a", "c"].map((sku) => ({ title: `Title of ${sku}` })) },
    });
    expect(counts.titles).toEqual(["a", "b", "c"]);
    await cache.invalidate({ coordinate: "Item", source: { shop: "s", sku: "b" } });
    await ask('mutation { price(shop: "s", sku: "c") { sku } }');
    await ask("{ items { title } }");
    expect(counts.titles.slice(3)).toEqual(["b", "c"]);
  });
});
