import { runInNewContext } from "node:vm";
import { ApolloServer } from "@apollo/server";
import { FakeClock } from "@graphql-cached/testing";
import type { IResolvers } from "@graphql-tools/utils";
import { type GraphQLResolveInfo, graphql } from "graphql";
import { type Cache, type CacheOptions, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { dataOf, memoryWorld } from "../../support/world.js";

interface Context {
  readonly userId: string;
}
interface Product {
  readonly id: string;
  readonly reason: string;
}

const productFor = ({ userId }: Context): Product => ({ id: "7", reason: `because ${userId} has bought a crib` });

/** Returns a site in which `Product.reason` is PUBLIC by the default scope, and how often it was loaded. */
function site(typeDefs: string, resolvers: IResolvers, options: CacheOptions<Context> = {}, reason = "maxAge: 60") {
  let loads = 0;
  const { Query, ...others } = resolvers;
  const process = memoryWorld().process(
    `type Query { product: Product } type Product { id: ID! reason: String @cached(${reason}) } ${typeDefs}`,
    {
      Query: { product: () => ({ id: "7", reason: "everybody likes it" }), ...Query },
      ...others,
      Product: { reason: (product: Product) => (loads++, product.reason), ...others.Product },
    },
    {
      identify: ({ userId }: Context) => userId,
      privacy: { warnOnContextReads: false },
      ...options,
    } as never,
  );
  const cache = process.cache as unknown as Cache<Context>;
  const ask = async (source: string, userId: string): Promise<unknown> =>
    JSON.stringify(await dataOf(process.ask(source, { userId })));
  const newLoads = (): number => {
    const count = loads;
    loads = 0;
    return count;
  };
  return { cache, schema: process.schema, ask, warnings: process.warnings, newLoads };
}

const NARROWED =
  "`Product.reason`: the value is not cached: expected a PUBLIC value to be made from what every caller can get, got one from ";

const LIST = "recommended: [Product!]!";
const HINTED = `directive @cacheControl(scope: CacheControlScope) on FIELD_DEFINITION enum CacheControlScope { PUBLIC PRIVATE }
  extend type Query { ${LIST} @cacheControl(scope: PRIVATE) }`;
const OWN = `extend type Query { ${LIST} @cached(maxAge: 60, scope: PRIVATE) }`;
const OF_ME =
  "extend type Query { recommended: Me @cached(maxAge: 60, scope: PRIVATE) } type Me { id: ID! products: [Product!]! }";

/** Like a query of Prisma: it is sent when `then` is called. */
const queryFor = (context: Context) => {
  const rows = [productFor(context)];
  // biome-ignore lint/suspicious/noThenProperty: promise-like on purpose.
  return { then: (resolve: (rows: readonly Product[]) => unknown) => resolve(rows) };
};
class Own {
  readonly id = "1";
  constructor(readonly products: unknown) {}
}
class Profile {
  readonly id = "1";
  constructor(readonly rows: Own) {}
  get products(): unknown {
    return this.rows.products;
  }
}
const UNREADABLE = Object.defineProperty({}, "secret", {
  enumerable: true,
  get: () => {
    throw new Error("nobody reads it");
  },
});
type Resolve = (context: Context) => unknown;
const recommending =
  (resolve: Resolve, others: IResolvers = {}) =>
  () => ({
    Query: { recommended: (_: unknown, __: unknown, context: Context) => resolve(context) as never },
    ...others,
  });
const listed: Resolve = (context) => [productFor(context)];

/** The PRIVATE field that a product comes from, and what to select below `recommended`. */
interface Below {
  readonly from?: string;
  readonly selection: string;
}
const ROOT: Below = { selection: "id reason" };
const FORMS: readonly (readonly [name: string, typeDefs: string, make: () => IResolvers, below: Below])[] = [
  ["a PRIVATE field", OWN, recommending(async (context) => listed(context)), ROOT],
  [
    "a PRIVATE field that returns a list of promises",
    OWN,
    recommending((context) => [Promise.resolve(productFor(context))]),
    ROOT,
  ],
  [
    "an object within the value of a PRIVATE field",
    "type Page { title: String shelves: [Shelf!]! } type Shelf { best: Product } extend type Query { recommended: Page @cached(maxAge: 60, scope: PRIVATE) }",
    recommending((context) => ({ shelves: [{ best: productFor(context) }] })),
    { selection: "shelves { best { id reason } }" },
  ],
  [
    "a PRIVATE field that is turned off by maxAge: 0",
    `extend type Query { ${LIST} @cached(maxAge: 0, scope: PRIVATE) }`,
    recommending(listed),
    ROOT,
  ],
  [
    "a PRIVATE field that returns an iterator",
    OWN,
    recommending((context) => new Map([["7", productFor(context)]]).values()),
    ROOT,
  ],
  [
    "an instance that an instance holds, which a PRIVATE field has returned",
    OF_ME,
    recommending((context) => new Profile(new Own(listed(context)))),
    { selection: "products { id reason }" },
  ],
  [
    "a PRIVATE field whose value cannot be read as a whole",
    OF_ME,
    recommending((context) => ({ id: "1", products: listed(context), unreadable: UNREADABLE })),
    { selection: "products { id reason }" },
  ],
  [
    "a PRIVATE field that returns 20,000 objects",
    OF_ME,
    recommending((context) => ({
      id: "1",
      products: listed(context),
      others: Array.from({ length: 20_000 }, () => ({})),
    })),
    { selection: "products { id reason }" },
  ],
  [
    "a promise-like query in the value of a PRIVATE field",
    OF_ME,
    recommending((context) => ({ id: "1", products: queryFor(context) })),
    { selection: "products { id reason }" },
  ],
  [
    "a method of the value of a PRIVATE field",
    OF_ME,
    recommending((context) => ({ id: "1", products: () => listed(context) })),
    { selection: "products { id reason }" },
  ],
  [
    "a string that a PRIVATE field has returned",
    "extend type Query { recommended: Line @cached(maxAge: 60, scope: PRIVATE) } type Line { id: ID! product: Product }",
    recommending((context) => productFor(context).reason, {
      Line: { product: (reason: unknown) => ({ id: "7", reason: String(reason) }) },
    }),
    { selection: "product { id reason }" },
  ],
  ["a PRIVATE field that returns a set", OWN, recommending((context) => new Set([productFor(context)])), ROOT],
  [
    "a promise that an instance holds, which a PRIVATE field has returned",
    OF_ME,
    recommending((context) => new Own(Promise.resolve([productFor(context)]))),
    { selection: "products { id reason }" },
  ],
  [
    "a resolver that copies what a PRIVATE field has returned",
    OF_ME,
    recommending((context) => ({ id: context.userId, rows: [productFor(context)] }), {
      Me: { products: async ({ rows }: { rows: Product[] }) => rows.map((row) => ({ ...row })) },
    }),
    { selection: "products { id reason }" },
  ],
  [
    "a PUBLIC field that is PRIVATE by what it is made from",
    "type Me { id: ID! best: Product @cached(maxAge: 60) } extend type Query { me: Me recommended: Me @cached(maxAge: 60, scope: PRIVATE) }",
    recommending((context) => ({ id: "1", line: productFor(context).reason }), {
      Me: { best: async ({ line }: { line: string }) => ({ id: "7", reason: line }) },
    }),
    { from: "Me.best", selection: "best { id reason }" },
  ],
  ["a field that is PRIVATE by its hint", HINTED, recommending(async (context) => listed(context)), ROOT],
  [
    "a field that is PRIVATE by its hint, and whose resolver returns a promise-like query",
    HINTED,
    recommending(queryFor),
    ROOT,
  ],
  [
    "a field that is PRIVATE by its hint, and whose resolver returns a promise of another realm",
    HINTED,
    recommending((context) => runInNewContext("Promise.resolve(rows)", { rows: listed(context) })),
    ROOT,
  ],
  [
    "a field that returns a union with a type that is PRIVATE by its hint",
    `directive @cacheControl(scope: CacheControlScope) on OBJECT enum CacheControlScope { PUBLIC PRIVATE }
      type Secret @cacheControl(scope: PRIVATE) { id: ID } union Found = Product | Secret extend type Query { recommended: [Found!]! }`,
    recommending(async (context) => listed(context), { Found: { __resolveType: () => "Product" } }),
    { selection: "... on Product { id reason }" },
  ],
  [
    "a field that returns a union with a type that is PRIVATE",
    "type Secret @cached(maxAge: 60, scope: PRIVATE) { id: ID } union Found = Product | Secret extend type Query { secret: Secret recommended: [Found!]! }",
    recommending(listed, { Found: { __resolveType: () => "Product" } }),
    { selection: "... on Product { id reason }" },
  ],
  [
    "a resolver below a PRIVATE field that returns a promise-like query",
    OF_ME,
    recommending(({ userId }) => ({ id: userId }), {
      Me: { products: (_: unknown, __: unknown, context: Context) => queryFor(context) as never },
    }),
    { selection: "products { id reason }" },
  ],
];

describe("a PUBLIC field whose parent came from", () => {
  it.each(FORMS)("%s belongs to its caller", async (_, typeDefs, make, { from = "Query.recommended", selection }) => {
    const { cache, ask, newLoads, warnings } = site(typeDefs, make());
    const query = `{ recommended { ${selection} } }`;
    for (const userId of ["alice", "bob", "alice", "bob"])
      expect(await ask(query, userId)).toContain(`because ${userId} has bought a crib`);
    expect(newLoads()).toBe(4);
    const lines = warnings.filter((line) => line.includes("Product.reason"));
    expect(lines).toEqual([
      expect.stringContaining(`${NARROWED}\`${from}\`, which is PRIVATE; set scope: PRIVATE, or `),
    ]);
    // Whom its parent does not concern shares it.
    await cache.clear();
    for (const userId of ["alice", "bob"])
      expect(await ask("{ product { reason } }", userId)).toContain("everybody likes it");
    expect(newLoads()).toBe(1);
  });

  it.each(FORMS)("%s is shared if the field itself says PUBLIC", async (_, typeDefs, make, { selection }) => {
    const { ask, newLoads, warnings } = site(typeDefs, make(), {}, "maxAge: 60, scope: PUBLIC");
    const query = `{ recommended { ${selection} } }`;
    await ask(query, "alice");
    expect(await ask(query, "bob")).toContain("because alice has bought a crib");
    expect(newLoads()).toBe(1);
    expect(warnings.filter((line) => line.includes("Product.reason"))).toEqual([]);
  });

  it("a PRIVATE loader belongs to its caller, as it is, copied, and after the loader was awaited", async () => {
    const typeDefs =
      "extend type Query { raw: [Product!]! copied: [Product!]! later: [Product!]! nested: Product none: Product }";
    let products: (context: Context) => { load(id: string): Promise<{ rows: Product[] }> };
    const rowsOf = (context: Context): Promise<{ rows: Product[] }> => products(context).load("all");
    const { cache, ask, newLoads } = site(typeDefs, {
      Query: {
        raw: (_: unknown, __: unknown, context: Context) => rowsOf(context).then(({ rows }) => rows),
        copied: async (_: unknown, __: unknown, context: Context) =>
          (await rowsOf(context)).rows.map((row) => ({ ...row })),
        later: async (_: unknown, __: unknown, context: Context) => {
          await Promise.resolve();
          return (await rowsOf(context)).rows;
        },
        nested: async (_: unknown, __: unknown, context: Context) => (await products(context).load("all")).rows[0],
      },
    });
    products = cache.loader({
      name: "Recommended",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, context) => ids.map(() => ({ rows: [productFor(context)] })),
    });
    for (const field of ["raw", "copied", "later", "nested"]) {
      for (const userId of ["alice", "bob", "alice"])
        expect(await ask(`{ ${field} { reason } }`, userId), field).toContain(`because ${userId} has`);
      expect(newLoads(), field).toBe(3);
    }
  });

  it("a resolver that has set the hint PRIVATE belongs to its caller", async () => {
    const set = (info: GraphQLResolveInfo): void =>
      (info as unknown as { cacheControl: { setCacheHint(hint: object): void } }).cacheControl.setCacheHint({
        maxAge: 60,
        scope: "PRIVATE",
      });
    const { cache, schema, newLoads } = site(
      "extend type Query { uncached: [Product!]! cached: Product @cached(maxAge: 60) }",
      {
        Query: {
          uncached: async (_: unknown, __: unknown, context: Context, info: GraphQLResolveInfo) => {
            await Promise.resolve();
            set(info);
            return [productFor(context)];
          },
          cached: (_: unknown, __: unknown, context: Context, info: GraphQLResolveInfo) => {
            set(info);
            return productFor(context);
          },
        },
      },
    );
    const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache)] });
    for (const field of ["uncached", "cached"]) {
      for (const userId of ["alice", "bob", "alice"]) {
        const { body } = await server.executeOperation(
          { query: `{ ${field} { reason } }` },
          { contextValue: { userId } },
        );
        expect(JSON.stringify(body), field).toContain(`because ${userId} has`);
      }
      expect(newLoads(), field).toBe(3);
    }
    await server.stop();
  });

  it("an object that holds the context of the request belongs to its caller", async () => {
    class Model {
      readonly id = "7";
      constructor(private readonly context: Context) {}
      get reason(): string {
        return productFor(this.context).reason;
      }
    }
    const { ask, newLoads, warnings } = site("extend type Query { model: Product }", {
      Query: { model: (_: unknown, __: unknown, context: Context) => new Model(context) },
    });
    for (const userId of ["alice", "bob"])
      expect(await ask("{ model { reason } }", userId)).toContain(`because ${userId} has`);
    expect(newLoads()).toBe(2);
    expect(warnings).toEqual([expect.stringContaining("got one that holds the context of the request")]);
  });
});

it("a field is PRIVATE by default if a type that it can return is", async () => {
  const { ask, newLoads } = site(
    `type Secret @cached(maxAge: 60, scope: PRIVATE) { id: ID reason: String } union Found = Product | Secret
      extend type Query { secret: Secret found: Found @cached(maxAge: 60) said: Found @cached(maxAge: 60, scope: PUBLIC) }`,
    {
      Query: Object.fromEntries(
        ["found", "said"].map((name) => [name, (_: unknown, __: unknown, context: Context) => productFor(context)]),
      ) as never,
      Found: { __resolveType: () => "Secret" },
    },
  );
  for (const userId of ["alice", "bob"])
    expect(await ask("{ found { ... on Secret { reason } } }", userId)).toContain(`because ${userId} has`);
  for (const userId of ["alice", "bob"])
    expect(await ask("{ said { ... on Secret { reason } } }", userId)).toContain("because alice has");
  expect(newLoads()).toBe(0);
});

describe("what a mutation has made for its caller", () => {
  const hint =
    "directive @cacheControl(scope: CacheControlScope) on FIELD_DEFINITION enum CacheControlScope { PUBLIC PRIVATE }";
  it.each([
    ["of a PRIVATE loader", "recommend: Product"],
    ["of a PRIVATE loader, and invalidates a tag", 'recommend: Product @invalidates(tags: ["Product:1"])'],
    ["by its hint", `recommend: Product @cacheControl(scope: PRIVATE) } ${hint} extend type Query { none: Int`],
    [
      "by its type",
      "recommend: Own } type Own @cached(maxAge: 60, scope: PRIVATE) { reason: String product: Product } extend type Query { own: Own",
    ],
    [
      "by its hint, and invalidates a tag",
      `recommend: Product @cacheControl(scope: PRIVATE) @invalidates(tags: ["Product:1"]) } ${hint} extend type Query { none: Int`,
    ],
  ])("%s is not stored for others below it", async (name, field) => {
    let profiles: (context: Context) => { load(id: string): Promise<Product> };
    const { cache, ask } = site(`type Mutation { ${field} }`, {
      Mutation: {
        recommend: async (_: unknown, __: unknown, context: Context) =>
          name.startsWith("by")
            ? { ...productFor(context), product: productFor(context) }
            : { ...(await profiles(context).load("me")) },
      },
    });
    profiles = cache.loader({
      name: "Profile",
      maxAge: 60,
      scope: "PRIVATE",
      batch: async (ids, context) => ids.map(() => productFor(context)),
    });
    const selection = name === "by its type" ? "product { reason }" : "reason";
    await ask(`mutation { recommend { ${selection} } }`, "alice");
    expect(await ask("{ product { reason } }", "bob")).toContain("everybody likes it");
  });
});

it.each([
  ["is off", "1", "off"],
  ["has no usable key", undefined, "on"],
] as const)("a PUBLIC field that %s hands on from whom its parent came", async (_, id, mode) => {
  const { cache, ask } = site(
    "type Me { id: ID line: String best: Product @cached(maxAge: 60) } extend type Query { open: Me me: Me @cached(maxAge: 60, scope: PRIVATE) }",
    {
      Query: { me: (_: unknown, __: unknown, context: Context) => ({ id, line: productFor(context).reason }) },
      Me: { best: async ({ line }: { line: string }) => ({ id: "7", reason: line }) },
    },
  );
  cache.setMode(mode, "Me.best");
  await ask("{ me { best { reason } } }", "alice");
  expect(await ask("{ product { reason } }", "bob")).toContain("everybody likes it");
});

it.each([
  ["is off", "", "1", "off"],
  ["has no usable key", "", undefined, "on"],
  ["says PUBLIC itself, and is off", ", scope: PUBLIC", "1", "off"],
] as const)("a PUBLIC field that %s hands on that it has read a PRIVATE loader late", async (_, scope, id, mode) => {
  let discounts: (context: Context) => { load(id: string): Promise<Product> };
  const { cache, ask } = site(
    `type Shop { id: ID best: Product @cached(maxAge: 60${scope}) } extend type Query { shop: Shop }`,
    {
      Query: { shop: () => ({ id }) },
      Shop: {
        async best(_: unknown, __: unknown, context: Context) {
          await undefined;
          return { ...(await discounts(context).load("7")) };
        },
      },
    },
  );
  discounts = cache.loader<string, Product, Context>({
    name: "Discount",
    scope: "PRIVATE",
    maxAge: 60,
    batch: async (ids, context) => ids.map(() => productFor(context)),
  });
  cache.setMode(mode, "Shop.best");
  await ask("{ shop { best { reason } } }", "alice");
  expect(await ask("{ product { reason } }", "bob")).toContain("everybody likes it");
});

describe("what a PUBLIC loader or function makes of a PRIVATE loader while it bypasses the cache", () => {
  type Offers = (context: Context) => { load(id: string): Promise<Product> };
  const loadAll = (offers: Offers, ids: readonly string[], context: Context) =>
    Promise.all(ids.map(async (id) => ({ ...(await offers(context).load(id)) })));
  const noKey = (): never => {
    throw new Error("no key");
  };
  const kinds: readonly (readonly [string, (cache: Cache<Context>, discounts: Offers, settings: object) => Offers])[] =
    [
      [
        "loader",
        (cache, discounts, settings) =>
          cache.loader({
            name: "Offer",
            maxAge: 60,
            batch: (ids, context) => loadAll(discounts, ids, context),
            ...settings,
          }),
      ],
      [
        "function",
        (cache, discounts, settings) => {
          const offer = cache.wrap({
            name: "Offer",
            maxAge: 60,
            context: (_: string, context: Context) => context,
            load: async (id: string, context: Context) => ({ ...(await discounts(context).load(id)) }),
            ...("cacheKeyFn" in settings ? { key: noKey } : settings),
          });
          return (context) => ({ load: (id) => offer(id, context) });
        },
      ],
      [
        "loader that another one asks",
        (cache, discounts, settings) => {
          const inner = cache.loader<string, Product, Context>({
            name: "Inner",
            maxAge: 60,
            batch: (ids, context) => loadAll(discounts, ids, context),
          });
          return cache.loader({
            name: "Offer",
            maxAge: 60,
            batch: (ids, context) => loadAll(inner, ids, context),
            ...settings,
          });
        },
      ],
    ];
  const bypasses = [
    ["is off", {}, "off"],
    ["has no usable key", { cacheKeyFn: noKey }, "on"],
    ["is turned off by maxAge: 0", { maxAge: 0 }, "on"],
  ] as const;
  it.each(kinds.flatMap(([kind, make]) => bypasses.map((bypass) => [kind, ...bypass, make] as const)))(
    "belongs to its caller: a %s that %s",
    async (_kind, _bypass, settings, mode, make) => {
      let offers: Offers;
      const { cache, ask } = site("extend type Query { offer: Product }", {
        Query: { offer: (_: unknown, __: unknown, context: Context) => offers(context).load("7") },
      });
      const discounts = cache.loader<string, Product, Context>({
        name: "Discount",
        scope: "PRIVATE",
        maxAge: 60,
        batch: async (ids, context) => ids.map(() => productFor(context)),
      });
      offers = make(cache, discounts, settings);
      cache.setMode(mode, "Offer");
      await ask("{ offer { reason } }", "alice");
      expect(await ask("{ product { reason } }", "bob")).toContain("everybody likes it");
    },
  );

  it("belongs to its caller if another loader of the tick asks for it as well", async () => {
    let offers: readonly Offers[] = [];
    const offer = (nth: number) => (_: unknown, __: unknown, context: Context) =>
      (offers[nth] as Offers)(context).load("7");
    const { cache, ask } = site("extend type Query { first: Product second: Product }", {
      Query: { first: offer(0), second: offer(1) },
    });
    const discounts = cache.loader<string, Product, Context>({
      name: "Discount",
      scope: "PRIVATE",
      maxAge: 60,
      batch: async (ids, context) => ids.map(() => productFor(context)),
    });
    const over = (name: string, inner: Offers) =>
      cache.loader<string, Product, Context>({
        name,
        maxAge: 60,
        batch: async (ids, context) => {
          const found = await inner(context).load(`${name} ${ids[0]}`);
          return ids.map(() => ({ ...found, id: name }));
        },
      });
    const shared = over("shared", discounts);
    offers = [over("first", shared), over("second", shared)];
    for (const name of ["shared", "first", "second"]) cache.setMode("off", name);
    await ask("{ first { reason } second { reason } }", "alice");
    expect(await ask("{ first { reason } second { reason } }", "bob")).not.toContain("alice");
  });
});

it("a PUBLIC field of an execution whose root is an object of a PRIVATE field belongs to its caller", async () => {
  const { schema, ask } = site(
    "extend type Query { me: Me @cached(maxAge: 60, scope: PRIVATE) } type Me { id: ID! best: Product report: String }",
    {
      Query: {
        me: (_: unknown, __: unknown, context: Context) => ({ id: "1", best: productFor(context) }),
        product: (root?: { best: Product }) => root?.best ?? { id: "7", reason: "everybody likes it" },
      },
      Me: {
        report: async (rootValue: unknown, _: unknown, contextValue: Context) =>
          JSON.stringify(await graphql({ schema, source: "{ product { reason } }", rootValue, contextValue })),
      },
    },
  );
  for (const userId of ["alice", "bob"]) expect(await ask("{ me { report } }", userId)).toContain(`because ${userId}`);
  expect(await ask("{ product { reason } }", "carol")).toContain("everybody likes it");
});

it("hands on the origin of an object through uncached resolvers to a loader, if no field is cached", async () => {
  const process = memoryWorld().process(
    `type Query { me: Me @cached(maxAge: 60, scope: PRIVATE) product: Product } type Me { best: Product }
      type Product { details: Details } type Details { reason: String }`,
    {
      Query: { me: (_: unknown, __: unknown, context: Context) => ({ reason: productFor(context).reason }) },
      Me: { best: async ({ reason }: Product) => ({ id: "7", reason }) },
      Product: { details: async ({ id, reason }: Product) => ({ id, reason }) },
      Details: { reason: (product: Product, _: unknown, context: Context) => reasons(context).load(product) },
    },
    { identify: ({ userId }: Context) => userId },
  );
  const cache = process.cache as unknown as Cache<Context>;
  const reasons = cache.loader<Product, string, Context>({
    name: "Reason",
    maxAge: 60,
    batch: async (products) => products.map(({ reason }) => reason),
    cacheKeyFn: ({ id }) => id,
  });
  for (const userId of ["alice", "bob"])
    expect(JSON.stringify(await dataOf(process.ask("{ me { best { details { reason } } } }", { userId })))).toContain(
      `because ${userId} has`,
    );
});

it("a PUBLIC field below a PRIVATE one of a caller without an identity belongs to that caller", async () => {
  const { ask, newLoads } = site(OWN, recommending((context) => [Promise.resolve(productFor(context))])(), {
    identify: () => null,
  });
  for (const userId of ["alice", "bob"])
    expect(await ask("{ recommended { reason } }", userId)).toContain(`because ${userId} has`);
  expect(newLoads()).toBe(2);
});

describe("a PUBLIC loader whose key is not all of its id", () => {
  it("keeps what it makes of a PRIVATE value for its caller, unless it says PUBLIC itself", async () => {
    const { cache, ask } = site(
      "extend type Query { recommended: [Product!]! @cached(maxAge: 60, scope: PRIVATE) } extend type Product { long: String said: String }",
      {
        ...recommending(listed)(),
        Product: {
          long: (product: Product, _: unknown, context: Context) => reasons(context).load(product),
          said: (product: Product, _: unknown, context: Context) => said(context).load(product),
        },
      },
    );
    const batch = async (products: readonly Product[]) => products.map(({ reason }) => reason);
    const cacheKeyFn = ({ id }: Product): string => id;
    const reasons = cache.loader({ name: "Reason", maxAge: 60, batch, cacheKeyFn });
    const said = cache.loader({ name: "Said", maxAge: 60, scope: "PUBLIC", batch, cacheKeyFn });
    for (const userId of ["alice", "bob"]) {
      const answer = await ask("{ recommended { long said } }", userId);
      expect(answer).toContain(`"long":"because ${userId} has`);
      expect(answer).toContain(`"said":"because alice has`);
    }
  });
});

type Say = (product: Product, context: Context) => unknown;
/** How what is made of a product for its reader gets to know it, by what is asked for that. */
const ASKING: readonly (readonly [string, (cache: Cache<Context>) => Say])[] = [
  [
    "a loader that asks another one with its ids",
    (cache) => {
      const batch = async (products: readonly Product[]) => products.map(({ reason }) => reason);
      const details = cache.loader({ name: "Detail", maxAge: 60, batch, cacheKeyFn: ({ id }: Product) => id });
      const outer = cache.loader({
        name: "Outer",
        maxAge: 60,
        batch: (products: readonly Product[], context: Context) => details(context).loadMany(products),
        cacheKeyFn: ({ id }) => id,
      });
      return (product, context) => outer(context).load(product);
    },
  ],
  [
    "a loader that asks another one with parts of its ids",
    (cache) => {
      const batch = async (products: readonly Product[]) => products.map(({ reason }) => reason);
      const details = cache.loader({ name: "Detail", maxAge: 60, batch, cacheKeyFn: ({ id }: Product) => id });
      const outer = cache.loader({
        name: "Outer",
        maxAge: 60,
        batch: (ids: readonly { product: Product }[], context: Context) =>
          details(context).loadMany(ids.map(({ product }) => product)),
        cacheKeyFn: ({ product }) => product.id,
      });
      return (product, context) => outer(context).load({ product });
    },
  ],
  [
    "a function that calls another one with its argument",
    (cache) => {
      const key = ({ id }: Product) => id;
      const inner = cache.wrap({ name: "inner", maxAge: 60, load: async ({ reason }: Product) => reason, key });
      const outer = cache.wrap({ name: "outer", maxAge: 60, load: (product: Product) => inner(product) });
      return (product) => outer(product);
    },
  ],
  [
    "a loader that is asked with an object around it",
    (cache) => {
      const reasons = cache.loader({
        name: "Reason",
        maxAge: 60,
        batch: async (ids: readonly { product: Product; n: number }[]) => ids.map(({ product }) => product.reason),
        cacheKeyFn: ({ product, n }) => [product.id, n],
      });
      return (product, context) => reasons(context).load({ product, n: 1 });
    },
  ],
  [
    "a function that is called with an object around a list of it",
    (cache) => {
      const reasons = cache.wrap({
        name: "reasons",
        maxAge: 60,
        load: async ({ products }: { products: Product[] }) => products[0]?.reason,
        key: ({ products }) => products.map(({ id }) => id),
      });
      return (product) => reasons({ products: [product] });
    },
  ],
];

describe.each(ASKING)("what is made of a PRIVATE value by %s", (_, making) => {
  it.each([
    ["in a list", listed],
    // The walk over it had a limit, from its end.
    [
      "before many objects",
      (context: Context) => [productFor(context), ...Array.from({ length: 11_000 }, () => ({ id: "8" }))],
    ],
  ] as const)("is kept for its caller: %s", async (__, resolve) => {
    const { cache, ask } = site(
      "extend type Query { recommended: [Product!]! @cached(maxAge: 60, scope: PRIVATE) } extend type Product { long: String }",
      {
        ...recommending(resolve)(),
        Product: {
          long: (product: Product, _args: unknown, context: Context) => product.reason && say(product, context),
        },
      },
    );
    const say = making(cache);
    expect(await ask("{ recommended { long } }", "alice")).toContain("because alice has");
    expect(await ask("{ product { long } }", "bob")).toContain("everybody likes it");
  });
});

it.each([
  ["object", {}],
  ["list", []],
])("a source that is a Proxy, revoked during the load, is no obstacle: %s", async (_, target) => {
  const { proxy, revoke } = Proxy.revocable(target, {});
  const { schema, cache } = memoryWorld().process("type Query { n: Int @cached(maxAge: 60) }", {
    Query: { n: async () => (revoke(), 1) },
  });
  const { tier, drain } = partsOf(cache, "test");
  expect(await graphql({ schema, source: "{ n }", rootValue: proxy, contextValue: {} })).toEqual({ data: { n: 1 } });
  await drain();
  expect(tier.loads.running).toBe(0);
});

it("the refresh of a PUBLIC value is not handed to a worker with a PRIVATE parent", async () => {
  const clock = new FakeClock();
  const jobs: unknown[] = [];
  const { cache, ask } = site(
    "extend type Query { recommended: [Product!]! @cached(maxAge: 600, scope: PRIVATE) }",
    recommending(listed)(),
    {
      store: memoryStore({ clock }),
      prefix: "origins",
      testing: { clock },
      loads: { refreshQueue: (job) => jobs.push(job) },
    },
    "maxAge: 60, staleWhileRevalidate: 600",
  );
  await ask("{ product { reason } }", "ann");
  await clock.advance(61_000);
  expect(await ask("{ recommended { reason } }", "alice")).toContain("everybody likes it");
  expect(jobs).toEqual([]);
  await cache.settled();
  expect(await ask("{ product { reason } }", "bob")).toContain("everybody likes it");
});
