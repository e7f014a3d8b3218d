import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const schemaWith = (fields: string): GraphQLSchema =>
  makeExecutableSchema({
    typeDefs: [
      cachedTypeDefs,
      `type Query { a: Int @cached(maxAge: 60) } type Product { ${fields} } input In { a: Int }`,
    ],
  });

const quiet = { info: () => undefined, warn: () => undefined };

it("a loader takes the shape of a schema that is applied later, for example by a hot reload", async () => {
  let loads = 0;
  const cache = createCache({ defaultScope: "PUBLIC", logger: quiet });
  onTestFinished(() => cache.close());
  const batch = async (ids: readonly number[]) => ids.map(() => (loads++, { name: "Chair" }));
  const products = cache.loader({ name: "Product", type: "Product", maxAge: 60, batch });
  for (const [fields, expected] of [
    ["name: String", 1],
    ["name: String", 1],
    ["name: String title: String", 2],
  ] as const) {
    applyCached(schemaWith(fields), cache);
    await products({}).load(7);
    await settle();
    expect(loads).toBe(expected);
  }
});

describe("the `type` of a loader", () => {
  const EXPECTED = 'cache.loader("Product"): `type`: expected';
  const start = () => {
    const cache = createCache({ defaultScope: "PUBLIC", logger: quiet });
    onTestFinished(() => cache.close());
    const loader = (type: string) =>
      cache.loader({ name: "Product", type, maxAge: 60, batch: async (ids: readonly number[]) => ids });
    return { cache, loader, apply: () => applyCached(schemaWith("name: String"), cache) };
  };

  it("is refused when the loader is created, if no applied schema has an output type of the name", () => {
    const { loader, apply } = start();
    apply();
    for (const type of ["Prodcut", "In"])
      expect(() => loader(type)).toThrow(`${EXPECTED} the name of an output type of an applied schema, got "${type}"`);
    expect(() => loader("Product")).not.toThrow();
  });

  it("is refused by applyCached, if the loader was created before", () => {
    const { loader, apply } = start();
    loader("Prodcut");
    expect(apply).toThrow(
      `${EXPECTED} the name of an output type of an applied schema, got "Prodcut"; correct it, or create the loader after the schema that has the type is applied`,
    );
  });

  it("is not asked of a schema for a loader that was refused", () => {
    const { cache, loader, apply } = start();
    const products = loader("Product");
    const batch = async (ids: readonly number[]) => ids;
    for (const name of ["Product", "Other"])
      expect(() => cache.loader({ name, type: "Prodcut", maxAge: -1, batch })).toThrow("`maxAge`");
    expect(apply).not.toThrow();
    expect(() => products({})).not.toThrow();
  });

  it("is not asked of a schema for a loader in whose place another has none", () => {
    const { cache, loader, apply } = start();
    const replaced = loader("Prodcut");
    cache.loader({ name: "Product", maxAge: 60, batch: async (ids: readonly number[]) => ids });
    expect(() => replaced({})).toThrow(`${EXPECTED} a schema that has the type "Prodcut", got none`);
    expect(apply).not.toThrow();
  });

  it("is refused when the loader is used before a schema is applied", () => {
    const { loader, apply } = start();
    const products = loader("Product");
    expect(() => products({})).toThrow(
      `${EXPECTED} a schema that has the type "Product", got none; call applyCached(schema, cache) before you use the loader, or set \`version\` instead`,
    );
    apply();
    expect(() => products({})).not.toThrow();
  });

  const VERSION = "`version`: expected a non-empty string, got";
  it.each<[what: string, loader: object | undefined, options: object, message: string]>([
    ["the empty type", { type: "" }, {}, "`type`: expected the name of a GraphQL type"],
    ["a number as a type", { type: 7 }, {}, "`type`: expected the name of a GraphQL type"],
    ["null as a type", { type: null }, {}, "`type`: expected the name of a GraphQL type"],
    ["a number as the version of a loader", { version: 2 }, {}, `${VERSION} 2`],
    ["the empty version of a cache", undefined, { version: "" }, `${VERSION} ""`],
    ["a version in the defaults", undefined, { defaults: { version: "2" } }, "`version`: unknown setting"],
  ])("or a `version` is refused: %s", (_, loader, options, message) => {
    const create = () => createCache({ defaultScope: "PUBLIC", ...options });
    const settings = { name: "Product", maxAge: 60, batch: async () => [], ...loader };
    expect(() => (loader === undefined ? create() : create().loader(settings as never))).toThrow(message);
  });
});
