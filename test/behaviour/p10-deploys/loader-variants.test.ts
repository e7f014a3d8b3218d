import { settle } from "@graphql-cached/testing";
import { applyCached, type Cache, createCache } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { listen, schemaOf } from "../../support/listen.js";

const schemaWith = (fields: string) =>
  schemaOf(`type Query { a: Int @cached(maxAge: 60) } type Product { ${fields} } input In { a: Int }`);

/** By what reads a product: a function that makes it. */
const READERS: Readonly<Record<string, (cache: Cache, load: () => object) => () => Promise<object>>> = {
  "a loader": (cache, load) => {
    const products = productsOf(cache, load);
    return () => products({}).load(7);
  },
  "a loader whose context outlives its request": (cache, load) => {
    const products = productsOf(cache, load);
    const context = {};
    return () => products(context).load(7);
  },
  "a function": (cache, load) => {
    const product = cache.wrap({ name: "Product", type: "Product", maxAge: 60, load: (_id: number) => load() });
    return () => product(7);
  },
};
function productsOf(cache: Cache, load: () => object) {
  const batch = async (ids: readonly number[]) => ids.map(load);
  return cache.loader({ name: "Product", type: "Product", maxAge: 60, batch });
}

describe.each(Object.entries(READERS))("%s", (_, makeReader) => {
  const start = () => {
    const source = { loads: 0 };
    const { cache } = listen();
    const reader = makeReader(cache, () => ({ id: ++source.loads, name: "Chair", maker: { id: 1 } }));
    const read = async (): Promise<number> => {
      await reader();
      await settle();
      return source.loads;
    };
    return { cache, read };
  };

  it("takes the shape of a schema that is applied later, for example by a hot reload", async () => {
    const { cache, read } = start();
    const loads: number[] = [];
    for (const fields of ["name: String", "name: String", "name: String title: String"]) {
      applyCached(schemaWith(fields), cache);
      loads.push(await read());
    }
    expect(loads).toEqual([1, 1, 2]);
  });

  it("has the tags of the entities that a schema which is applied later finds", async () => {
    const { cache, read } = start();
    applyCached(schemaWith("id: ID"), cache);
    expect(await read()).toBe(1);
    applyCached(schemaWith("id: ID"), cache, { entityTags: true });
    expect(await read()).toBe(2);
    await cache.invalidateTags(["Product:2"]);
    expect(await read()).toBe(3);
  });

  it("has the tags of the entities that any schema of the cache finds, whichever is applied last", async () => {
    const schemas = [schemaWith("id: ID maker: Maker } type Maker { id: ID"), schemaWith("id: ID")];
    for (const order of [schemas, [...schemas].reverse()]) {
      const { cache, read } = start();
      for (const schema of order) applyCached(schema, cache, { entityTags: true });
      expect([await read(), await read()]).toEqual([1, 1]);
      await cache.invalidateTags(["Maker:1"]);
      expect(await read()).toBe(2);
    }
  });
});

describe("the `type` of a loader", () => {
  const same = async (ids: readonly number[]) => ids;
  const EXPECTED = 'cache.loader("Product"): `type`: expected';
  const start = () => {
    const { cache } = listen();
    const loader = (type: string) => cache.loader({ name: "Product", type, maxAge: 60, batch: same });
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
    for (const name of ["Product", "Other"])
      expect(() => cache.loader({ name, type: "Prodcut", maxAge: -1, batch: same })).toThrow("`maxAge`");
    expect(apply).not.toThrow();
    expect(() => products({})).not.toThrow();
  });

  it("is not asked of a schema for a loader in whose place another has none", () => {
    const { cache, loader, apply } = start();
    const replaced = loader("Prodcut");
    cache.loader({ name: "Product", maxAge: 60, batch: same });
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
