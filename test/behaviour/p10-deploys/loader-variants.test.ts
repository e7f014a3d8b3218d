import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const schemaWith = (fields: string): GraphQLSchema =>
  makeExecutableSchema({
    typeDefs: [
      cachedTypeDefs,
      `type Query { a: Int @cached(maxAge: 60) } type Product { ${fields} } input In { a: Int }`,
    ],
  });

interface LoaderSettings {
  readonly type?: string;
  readonly version?: string;
}

const quiet = { info: () => undefined, warn: () => undefined };

/** A release: a cache on a shared store, and a loader that returns `value` and counts its loads. */
function release(store: ReturnType<typeof memoryStore>, value: object, settings: LoaderSettings) {
  let loads = 0;
  const cache = createCache({ defaultScope: "PUBLIC", store, logger: quiet });
  onTestFinished(() => cache.close());
  const products = cache.loader<number, object>({
    name: "Product",
    maxAge: 60,
    batch: async (ids) => ids.map(() => (loads++, value)),
    ...settings,
  });
  return { cache, loads: () => loads, load: async () => [await products({}).load(7), await settle()][0] };
}

const loaderOf = (cache: Cache, type: string) =>
  cache.loader<number, number>({ name: "Product", type, maxAge: 60, batch: async (ids) => ids });

describe("two releases of a loader", () => {
  const OLD = { name: "Chair" };
  const NEW = { title: "Chair" };

  it("get each their own values, and load each key once, if the type that the loader names has changed", async () => {
    const store = memoryStore();
    const releases = [release(store, OLD, { type: "Product" }), release(store, NEW, { type: "Product" })] as const;
    applyCached(schemaWith("name: String"), releases[0].cache);
    applyCached(schemaWith("title: String"), releases[1].cache);
    for (let round = 0; round < 3; round++) {
      expect(await releases[0].load()).toEqual(OLD);
      expect(await releases[1].load()).toEqual(NEW);
    }
    expect(releases.map(({ loads }) => loads())).toEqual([1, 1]);
  });

  it("get each their own values if their `version` differs, and share them if neither version nor type changed", async () => {
    const store = memoryStore();
    const releases = [
      release(store, OLD, { version: "1" }),
      release(store, NEW, { version: "2" }),
      release(store, OLD, { version: "1" }),
    ] as const;
    for (let round = 0; round < 3; round++) for (const { load } of releases) await load();
    expect(releases.map(({ loads }) => loads())).toEqual([1, 1, 0]);
    expect(await releases[2].load()).toEqual(OLD);
  });

  it("take the shape of a schema that is applied later, for example by a hot reload", async () => {
    const store = memoryStore();
    const { cache, load, loads } = release(store, OLD, { type: "Product" });
    applyCached(schemaWith("name: String"), cache);
    await load();
    applyCached(schemaWith("name: String"), cache);
    await load();
    expect(loads()).toBe(1);
    applyCached(schemaWith("name: String title: String"), cache);
    await load();
    expect(loads()).toBe(2);
  });
});

describe("the `type` of a loader", () => {
  it("is refused when the loader is created, if no applied schema has an output type of the name", () => {
    const cache = createCache({ defaultScope: "PUBLIC", logger: quiet });
    applyCached(schemaWith("name: String"), cache);
    for (const type of ["Prodcut", "In"])
      expect(() => loaderOf(cache, type)).toThrow(
        `cache.loader("Product"): \`type\`: expected the name of an output type of an applied schema, got "${type}"`,
      );
    expect(() => loaderOf(cache, "Product")).not.toThrow();
  });

  it("is refused by applyCached, if the loader was created before", () => {
    const cache = createCache({ defaultScope: "PUBLIC", logger: quiet });
    loaderOf(cache, "Prodcut");
    expect(() => applyCached(schemaWith("name: String"), cache)).toThrow(
      'cache.loader("Product"): `type`: expected the name of an output type of an applied schema, got "Prodcut"; correct it, or create the loader after the schema that has the type is applied',
    );
  });

  it("is refused when the loader is used before a schema is applied", () => {
    const cache = createCache({ defaultScope: "PUBLIC", logger: quiet });
    const products = loaderOf(cache, "Product");
    expect(() => products({})).toThrow(
      'cache.loader("Product"): `type`: expected a schema that has the type "Product", got none; call applyCached(schema, cache) before you use the loader, or set `version` instead',
    );
    applyCached(schemaWith("name: String"), cache);
    expect(() => products({})).not.toThrow();
  });

  it("is refused, as is its `version`, unless it is a non-empty string", () => {
    const settings = { name: "Product", maxAge: 60, batch: async () => [] };
    for (const wrong of ["", 7, null])
      expect(() => createCache({ defaultScope: "PUBLIC" }).loader({ ...settings, type: wrong } as never)).toThrow(
        "`type`: expected the name of a GraphQL type",
      );
    expect(() => createCache({ defaultScope: "PUBLIC" }).loader({ ...settings, version: 2 } as never)).toThrow(
      "`version`: expected a non-empty string, got 2",
    );
    expect(() => createCache({ defaultScope: "PUBLIC", version: "" })).toThrow(
      '`version`: expected a non-empty string, got ""',
    );
    expect(() => createCache({ defaultScope: "PUBLIC", defaults: { version: "2" } as never })).toThrow(
      "`version`: unknown setting",
    );
  });
});
