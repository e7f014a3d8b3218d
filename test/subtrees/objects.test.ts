import { FakeClock } from "@graphql-cached/testing";
import DataLoader from "dataloader";
import { execute, GraphQLError, type GraphQLResolveInfo, type GraphQLSchema, parse, printSchema } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { type Answer, openSubtrees, type SubtreeSiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    shop(n: Int = 1): Shop
    items(first: Int = 20): [Item!]
    page: Shop @cached(maxAge: 60, subtree: true)
    things: [Thing]
  }
  interface Thing { id: ID! }
  type Shop implements Thing { id: ID! items(first: Int = 20): [Item] best: Item any: [Thing] strict: [Item!] }
  type Item implements Thing @cached(maxAge: 60, subtree: true, tags: ["Item:{$source.id}"]) {
    id: ID!
    title(upper: Boolean = false): String
    price: Int @cached(maxAge: 60, key: ["$source.id"], tags: ["Price:{$source.id}"])
    must: String!
    of: String
    locale: String @cached(maxAge: 60, key: ["$source.id", "$context.locale"])
    related: [Item]
    liked: Boolean @cached(maxAge: 0)
    stars: Int
  }
`;

function open(options: Partial<SubtreeSiteOptions> = {}) {
  const counts = { list: 0, titles: [] as string[], prices: 0, batches: 0, seen: [] as string[] };
  const failing = new Set<string>();
  const broken = new Set<string>();
  const loaders = new WeakMap<object, DataLoader<string, number>>();
  const starsOf = (context: object): DataLoader<string, number> => {
    let loader = loaders.get(context);
    if (loader === undefined) {
      loader = new DataLoader(async (ids) => {
        counts.batches++;
        return ids.map((id) => id.length);
      });
      loaders.set(context, loader);
    }
    return loader;
  };
  const list = (first: number): object[] => {
    counts.list++;
    return Array.from({ length: first }, (_, nth) => ({ id: String(nth + 1) }));
  };
  const shop = (_: unknown, { n = 1 }: { n?: number }, __: unknown, info: GraphQLResolveInfo): object => {
    const selected = info.fieldNodes.flatMap(({ selectionSet }) => selectionSet?.selections ?? []);
    for (const one of selected) if (one.kind === "Field") counts.seen.push(one.name.value);
    return { id: `S${n}` };
  };
  const resolvers = {
    Thing: { __resolveType: ({ id }: { id: string }) => (id.startsWith("S") ? "Shop" : "Item") },
    Query: {
      shop,
      page: () => ({ id: "S1" }),
      items: (_: unknown, { first }: { first: number }) => list(first),
      things: () => [{ id: "S1" }, { id: "1" }],
    },
    Shop: {
      items: (_: unknown, { first }: { first: number }) => Promise.resolve(list(first)),
      strict: () => list(3).map((one) => Promise.resolve(one)),
      best: () => ({ id: "1" }),
      any: () => list(2),
    },
    Item: {
      title: ({ id }: { id?: string }, { upper }: { upper: boolean }) => {
        counts.titles.push(String(id));
        return upper ? `TITLE ${id}` : `title ${id}`;
      },
      price: () => ++counts.prices,
      must: ({ id }: { id: string }) => {
        if (broken.has(id)) return null;
        if (failing.has(id)) throw new GraphQLError(`no ${id}`, { extensions: { code: "NO" } });
        return `must ${id}`;
      },
      of: async ({ id }: { id: string }, _: unknown, context: { user?: string }) =>
        id === "2" ? `of ${context.user}` : "of all",
      locale: (_: unknown, __: unknown, { locale }: { locale?: string }) => `in ${locale}`,
      related: ({ id }: { id: string }) => [{ id: `${id}a` }, null, { id: `${id}b` }],
      liked: (_: unknown, __: unknown, { user }: { user?: string }) => user === "ann",
      stars: ({ id }: { id: string }, _: unknown, context: object) => starsOf(context).load(id),
    },
  };
  const site = openSubtrees({ typeDefs, resolvers, ...options });
  return { ...site, counts, failing, broken };
}

/** The same without the cache. */
async function uncached(schema: GraphQLSchema, query: string, variableValues = {}): Promise<unknown> {
  return sorted(await execute({ schema, document: parse(query), contextValue: {}, variableValues }));
}

/** Returns a copy of an answer with its errors in the order of their paths. */
function sorted(answer: object): Answer {
  const { errors, ...others } = JSON.parse(JSON.stringify(answer)) as Answer;
  const byPath = (one: { path?: unknown }, other: { path?: unknown }): number =>
    JSON.stringify(one.path) < JSON.stringify(other.path) ? -1 : 1;
  return errors === undefined ? others : { ...others, errors: [...errors].sort(byPath) };
}

describe("the objects of a list", () => {
  it("are entries: of 20, those that are invalidated are loaded again", async () => {
    const { ask, cache, counts } = open();
    const query = "{ shop { id items { id title } } }";
    const first = await ask(query);
    expect(first).toEqual({
      data: {
        shop: { id: "S1", items: Array.from({ length: 20 }, (_, n) => ({ id: `${n + 1}`, title: `title ${n + 1}` })) },
      },
    });
    expect(counts.titles).toHaveLength(20);
    expect(await ask(query)).toEqual(first);
    expect(counts.titles).toHaveLength(20);
    await cache.invalidateTags(["Item:7"]);
    expect(await ask(query)).toEqual(first);
    expect(counts.titles.slice(20)).toEqual(["7"]);
    // The settings of the type apply to the list as well, which has the tags of all its objects.
    expect(counts.list).toBe(2);
  });

  it("are the same entries in all lists with the same selection", async () => {
    const { ask, counts } = open();
    await ask("{ shop { items { id title } } }");
    await ask("{ other: items(first: 3) { id title } shop { strict { id title } } }");
    expect(counts.titles).toHaveLength(20);
    await ask("{ items(first: 3) { title } }");
    expect(counts.titles).toHaveLength(23);
  });

  it("are invalidated by a part, by their id, and as a whole", async () => {
    const { ask, cache, counts } = open();
    const query = "{ items(first: 4) { title price } }";
    await ask(query);
    for (const [invalidate, loads] of [
      [() => cache.invalidateTags(["Price:2"]), 1],
      [() => cache.invalidate({ coordinate: "Item", source: { id: "3" } }), 1],
      [() => cache.invalidate({ coordinate: "Item" }), 4],
      [() => cache.clear(), 4],
    ] as const) {
      const before = counts.titles.length;
      await invalidate();
      await ask(query);
      expect(counts.titles.length - before).toBe(loads);
    }
  });

  it("are shared by two processes", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const [one, other] = [open({ clock, store }), open({ clock, store })];
    const query = "{ items { title } }";
    const answer = await one.ask(query);
    expect(await other.ask(query)).toEqual(answer);
    expect(other.counts.titles).toEqual([]);
    await one.cache.invalidateTags(["Item:5"]);
    await other.ask(query);
    expect(other.counts.titles).toEqual(["5"]);
  });

  it("are loaded once if one of them is in the list twice", async () => {
    const { ask, counts } = open();
    await ask("{ a: items(first: 2) { title } b: items(first: 3) { title } }");
    expect(counts.titles).toEqual(["1", "2", "3"]);
  });

  it("are not stored for other callers if a resolver below reads the context", async () => {
    const { ask, skipped } = open();
    const query = "{ items(first: 2) { id of } }";
    for (const user of ["ann", "bob"])
      expect((await ask(query, { user })).data).toEqual({
        items: [
          { id: "1", of: "of all" },
          { id: "2", of: `of ${user}` },
        ],
      });
    expect(skipped()).toEqual(["CONTEXT_READ user"]);
  });

  it("are kept apart by the context in the keys of cached fields below", async () => {
    const { ask } = open();
    for (const locale of ["de", "en", "de"])
      expect((await ask("{ items(first: 1) { locale } }", { locale })).data).toEqual({
        items: [{ locale: `in ${locale}` }],
      });
  });

  it("are executed as usual where a part is not cached", async () => {
    const { ask, counts, skipped } = open();
    const query = "{ items(first: 2) { title liked } }";
    for (const user of ["ann", "bob"])
      expect((await ask(query, { user })).data).toEqual({
        items: [1, 2].map((n) => ({ title: `title ${n}`, liked: user === "ann" })),
      });
    expect(counts.titles).toHaveLength(4);
    expect(skipped()).toEqual(["HOLE Item.liked"]);
  });

  it("are parts of the entry of a field with a subtree", async () => {
    const { ask, counts, events } = open();
    const query = "{ page { items(first: 3) { title } } }";
    await ask(query);
    await ask(query);
    expect(counts.titles).toHaveLength(3);
    expect(events.filter((event) => event.name === "entry.served" && event.coordinate === "Item")).toEqual([]);
  });

  it("are not seen by resolvers that look ahead", async () => {
    const { ask, counts } = open();
    await ask("{ shop { id items { title } } }");
    expect(counts.seen).toEqual(["id", "items"]);
  });

  it("do not show in the schema", () => {
    const { schema } = open();
    for (const name of ["$objects", "$errors", "$Completed"]) expect(printSchema(schema)).not.toContain(name);
  });
});

describe("answers with objects of lists", () => {
  const queries: [string, string, Record<string, unknown>?][] = [
    ["nested lists", "{ shop { items(first: 2) { id related { id title related { id } } } } }"],
    [
      "fragments and aliases",
      "{ shop { ...S a: items(first: 1) { t: title } } } fragment S on Shop { items(first: 2) { ...I } ...T } fragment T on Shop { items(first: 2) { title } } fragment I on Item { id must }",
    ],
    [
      "parents that are selected twice",
      "{ shop { items(first: 2) { id } } shop { items(first: 2) { title } best { id } } }",
    ],
    [
      "variables",
      "query ($n: Int, $upper: Boolean) { items(first: $n) { title(upper: $upper) } }",
      { n: 2, upper: true },
    ],
    [
      "conditions",
      "query ($yes: Boolean!, $no: Boolean!) { items(first: 2) { id @include(if: $yes) title @skip(if: $yes) } shop { items(first: 1) @include(if: $no) { must } items(first: 1) @include(if: $yes) { id } } }",
      { yes: true, no: false },
    ],
    [
      "abstract types",
      "{ things { __typename id ... on Shop { items(first: 2) { id __typename } any { ... on Item { title } } } } }",
    ],
    ["errors and nulls", "{ shop { id items(first: 4) { id must } } }"],
    ["errors of a list that must not contain null", "{ shop { id strict { id must } } }"],
    [
      "errors of a root field, and at two levels",
      "{ items(first: 3) { must } shop { items(first: 4) { must related { must } } } }",
    ],
    [
      "lists without errors beside such with errors",
      "{ items(first: 1) { id } shop { strict { title } items(first: 3) { must } } }",
    ],
  ];

  it.each(queries)("equal those without the cache: %s", async (_, query, variables = {}) => {
    const { ask, schema, failing, broken } = open();
    failing.add("2").add("2a");
    broken.add("4").add("1b");
    const expected = await uncached(schema, query, variables);
    for (let time = 0; time < 3; time++) expect(sorted(await ask(query, {}, variables))).toEqual(expected);
  });

  it("change when an error is over", async () => {
    const { ask, failing, clock } = open();
    failing.add("2");
    const query = "{ shop { items(first: 2) { must } } }";
    expect(await ask(query)).toMatchObject({
      data: { shop: { items: [{ must: "must 1" }, null] } },
      errors: [{ message: "no 2", path: ["shop", "items", 1, "must"], extensions: { code: "NO" } }],
    });
    failing.clear();
    await clock.advance(60_000);
    expect(await ask(query)).toEqual({ data: { shop: { items: [{ must: "must 1" }, { must: "must 2" }] } } });
  });
});

describe("lists of other kinds", () => {
  const resolved = (items: unknown) => ({
    typeDefs: /* GraphQL */ `
      type Query { items: [Item!] }
      type Item @cached(maxAge: 60, subtree: true) { id: ID name: String }
    `,
    resolvers: {
      Query: { items: () => (typeof items === "function" ? (items as () => unknown)() : items) },
      Item: { name: (item: unknown) => typeof item },
    },
  });

  it.each<[string, unknown]>([
    ["a set", new Set([{ id: 1 }, { id: 2 }])],
    ["objects without an id", [{}, { id: null }, { id: { n: 1 } }, { id: () => "1" }]],
    ["what is no object", ["a", 7]],
    ["null", null],
    ["null in a list without", [{ id: 1 }, null]],
    ["errors", [{ id: 1 }, new Error("broken")]],
    ["a rejected promise in it", () => [{ id: 1 }, Promise.reject(new Error("late"))]],
    ["no list", { id: 1 }],
    ["a text", "text"],
    ["an error", new Error("none")],
  ])("are as without the cache: %s", async (_, items) => {
    const { ask, schema } = openSubtrees(resolved(items));
    const query = "{ items { id name } }";
    const expected = await uncached(schema, query);
    for (let time = 0; time < 2; time++) expect(await ask(query)).toEqual(expected);
  });

  it("are as without the cache: a list that comes piece by piece", async () => {
    const pieces = {
      [Symbol.asyncIterator]: async function* () {
        yield { id: 1 };
        yield { id: 2 };
      },
    };
    const { ask, schema } = openSubtrees(resolved(pieces));
    const query = "{ items { id name } }";
    expect(await ask(query)).toEqual(await uncached(schema, query));
  });
});

it("an entity that a mutation returns invalidates the object, and those that show it", async () => {
  const names = new Map([
    ["1", "one"],
    ["2", "two"],
    ["9", "author"],
  ]);
  let builds = 0;
  const { ask } = openSubtrees({
    typeDefs: /* GraphQL */ `
      type Query { items: [Item] }
      type Mutation { renameItem(id: ID!): Item renameAuthor(id: ID!): Author }
      type Item @cached(maxAge: 60, subtree: true) { id: ID! name: String author: Author }
      type Author { id: ID! name: String }
    `,
    resolvers: {
      Query: { items: () => [{ id: "1" }, { id: "2" }] },
      Mutation: {
        renameItem: (_: unknown, { id }: { id: string }) => names.set(id, "new") && { id },
        renameAuthor: (_: unknown, { id }: { id: string }) => names.set(id, "new") && { id },
      },
      Item: {
        name: ({ id }: { id: string }) => {
          builds++;
          return names.get(id);
        },
        author: ({ id }: { id: string }) => (id === "2" ? { id: "9" } : null),
      },
      Author: { name: ({ id }: { id: string }) => names.get(id) },
    },
    applied: { entityTags: true },
  });
  const query = "{ items { name author { name } } }";
  await ask(query);
  await ask('mutation { renameItem(id: "1") { id } }');
  expect((await ask(query)).data).toEqual({
    items: [
      { name: "new", author: null },
      { name: "two", author: { name: "author" } },
    ],
  });
  expect(builds).toBe(3);
  await ask('mutation { renameAuthor(id: "9") { id } }');
  expect((await ask(query)).data).toMatchObject({ items: [{}, { author: { name: "new" } }] });
  expect(builds).toBe(4);
});

it("objects that are executed for one request have the limits of one execution together", async () => {
  const loads: number[] = [];
  const { ask } = openSubtrees({
    typeDefs: /* GraphQL */ `
      type Query { items: [Item] }
      type Item @cached(maxAge: 60, subtree: true) { id: ID found(text: String): Int @cached(maxAge: 60, key: ["$source.n", "$args"]) }
    `,
    resolvers: {
      Query: { items: () => Array.from({ length: 10 }, (_, n) => ({ n })) },
      Item: { found: ({ n }: { n: number }) => loads.push(n) },
    },
    cache: { limits: { maxKeyBytes: 3_000 } },
  });
  const query = "query ($text: String) { items { found(text: $text) } }";
  for (let time = 0; time < 2; time++) await ask(query, {}, { text: "a".repeat(1_000) });
  // As without subtrees: the first keys fit, and all others bypass the cache.
  expect(loads.filter((n) => n === 0)).toHaveLength(1);
  expect(loads.filter((n) => n === 9)).toHaveLength(2);
});

it("a list is judged as one read, whatever the number of its objects", async () => {
  const { ask, counts, skipped, cache } = open();
  const query = "{ items(first: 20) { title } }";
  // More reads of objects than a selection is judged by, none of which is a hit.
  for (let time = 0; time < 60; time++) {
    await ask(query);
    await cache.clear();
  }
  expect(counts.titles).toHaveLength(60 * 20);
  expect(skipped()).toEqual([]);
});

describe("the mode of the type", () => {
  it("off serves nothing from the store", async () => {
    const { ask, cache, counts } = open();
    const query = "{ items(first: 2) { title } }";
    const expected = await ask(query);
    await cache.setMode("off", { coordinate: "Item" });
    for (let time = 2; time <= 3; time++) {
      expect(await ask(query)).toEqual(expected);
      expect(counts.titles).toHaveLength(2 * time);
    }
  });

  it("is overridden by a request that bypasses or refreshes", async () => {
    const { ask, cache, counts } = open();
    const query = "{ items(first: 2) { title } }";
    await ask(query);
    for (const [nth, override] of (["BYPASS", "REFRESH"] as const).entries()) {
      const context = {};
      cache.override(context, override);
      await ask(query, context);
      expect(counts.titles).toHaveLength(2 * (nth + 2));
    }
  });
});

describe("subtree: true on a type", () => {
  const opened = (types: string) => () => openSubtrees({ typeDefs: types, resolvers: {} });

  it.each([
    [
      "an interface",
      "type Query { n: [N] } interface N @cached(maxAge: 60, subtree: true) { id: ID }",
      "got an interface",
    ],
    [
      "a union",
      "type Query { n: [U] } union U @cached(maxAge: 60, subtree: true) = A type A { id: ID }",
      "got an interface or a union",
    ],
    ["a type without id", "type Query { n: [A] } type A @cached(maxAge: 60, subtree: true) { code: ID }", "an `id`"],
    ["the query type", "type Query @cached(maxAge: 60, subtree: true) { id: ID }", "got the query type"],
    [
      "a type that is not cached",
      "type Query { n: [A] } type A @cached(maxAge: 0, subtree: true) { id: ID }",
      "`maxAge` of at least 1",
    ],
  ])("is refused on %s", (_, types, message) => {
    expect(opened(types)).toThrow(message);
  });

  it("is without effect in a copy of the schema, which is reported", async () => {
    const { schema, warnings, askOf, counts } = open();
    const { mapSchema } = await import("@graphql-tools/utils");
    const ask = askOf(mapSchema(schema, {}));
    for (let time = 1; time <= 2; time++) await ask("{ items(first: 2) { title } }");
    expect(counts.titles).toHaveLength(4);
    expect(warnings.join("\n")).toContain("`Item` is cached without its subtree");
  });
});
