import { gate, settle } from "@graphql-cached/testing";
import DataLoader from "dataloader";
import { describe, expect, it } from "vitest";
import { openSubtrees } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page(n: Int = 1): Page @cached(maxAge: 60, subtree: true)
    other: Page @cached(maxAge: 60, subtree: true)
    price(id: ID!): Int @cached(maxAge: 60, tags: ["Price:{$args.id}"])
    note(id: ID!): String
    likes(id: ID!): String
  }
  type Page {
    id: ID!
    title: String
    price: Int @cached(maxAge: 60, tags: ["Price:{$source.id}"])
    greeting: String @cached(maxAge: 60, key: ["$source.id", "$context.locale"])
    note(id: ID!): String
    likes: String
    stock: Stock @cached(maxAge: 60, tags: ["Stock:{$result.code}"])
  }
  type Stock { code: String count: Int }
`;

function open() {
  const counts = { page: 0, title: 0, price: 0, note: 0, batches: [] as string[] };
  const held: { until: Promise<unknown> | undefined } = { until: undefined };
  const likes = new WeakMap<object, DataLoader<number, string>>();
  /** A loader of the user, which nothing but the context object leads to. */
  const likesOf = (context: object): DataLoader<number, string> => {
    let loader = likes.get(context);
    if (loader === undefined) {
      loader = new DataLoader(async (ids) => {
        counts.batches.push(ids.join());
        return ids.map((id) => `likes of ${id}`);
      });
      likes.set(context, loader);
    }
    return loader;
  };
  const resolvers = {
    Query: {
      page: (_: unknown, { n }: { n: number }) => {
        counts.page++;
        return { id: n };
      },
      other: () => ({ id: 9 }),
      price: () => ++counts.price,
      note: (_: unknown, { id }: { id: string }, context: object) => notes(context).load(id),
      likes: (_: unknown, { id }: { id: string }, context: object) => likesOf(context).load(Number(id)),
    },
    Page: {
      title: async () => {
        counts.title++;
        await held.until;
        return `title ${counts.title}`;
      },
      price: () => ++counts.price,
      greeting: (_: unknown, __: unknown, { locale }: { locale: string }) => (locale === "de" ? "Hallo" : "Hello"),
      note: (_: unknown, { id }: { id: string }, context: object) => notes(context).load(id),
      likes: ({ id }: { id: number }, _: unknown, context: object) => likesOf(context).load(id),
      stock: ({ id }: { id: number }) => ({ code: `S${id}`, count: counts.price }),
    },
  };
  const site = openSubtrees({ typeDefs, resolvers });
  const notes = site.cache.loader<string, string>({
    name: "Note",
    maxAge: 60,
    tags: (id) => [`Note:${id}`],
    batch: async (ids) => ids.map((id) => `note ${id}.${++counts.note}`),
  });
  return { ...site, counts, held, notes };
}

/** Asks, invalidates, and returns whether the second answer was built anew. */
async function isReached(
  { ask, counts }: ReturnType<typeof open>,
  query: string,
  invalidate: () => Promise<unknown>,
): Promise<boolean> {
  await ask(query);
  const before = counts.title;
  await ask(query);
  expect(counts.title).toBe(before);
  await invalidate();
  await settle();
  await ask(query);
  return counts.title > before;
}

describe("an invalidation of a part reaches the subtree", () => {
  const query = '{ page { id title price note(id: "a") stock { count } } }';

  it.each<[string, (site: ReturnType<typeof open>) => Promise<unknown>]>([
    ["by its tag", ({ cache }) => cache.invalidateTags(["Price:1"])],
    ["by a tag of its result", ({ cache }) => cache.invalidateTags(["Stock:S1"])],
    ["by a tag of a loader", ({ cache }) => cache.invalidateTags(["Note:a"])],
    ["by an id of a loader", ({ cache }) => cache.invalidate({ loader: "Note", id: "a" })],
    ["as a whole", ({ cache }) => cache.invalidate({ coordinate: "Page.price" })],
    ["by the field itself", ({ cache }) => cache.invalidate({ coordinate: "Query.page", args: { n: 1 } })],
    ["by everything", ({ cache }) => cache.clear()],
  ])("that the build has loaded: %s", async (_, invalidate) => {
    const site = open();
    expect(await isReached(site, query, () => invalidate(site))).toBe(true);
  });

  it("that the build has found in the store", async () => {
    const site = open();
    await site.ask('{ page { price note(id: "a") } note(id: "a") }');
    for (const tag of ["Price:1", "Note:a"])
      expect(await isReached(site, query, () => site.cache.invalidateTags([tag]))).toBe(true);
  });

  it("that another field of the same request has read before, with a loader or a field", async () => {
    const site = open();
    const both = '{ note(id: "a") price(id: 1) page { id title price note(id: "a") } }';
    for (const tag of ["Note:a", "Price:1"])
      expect(await isReached(site, both, () => site.cache.invalidateTags([tag]))).toBe(true);
  });

  it("that the build has shared with another request", async () => {
    const site = open();
    const { ask, cache, counts } = site;
    const one = '{ page { id title price note(id: "a") } }';
    await Promise.all([ask('{ note(id: "a") other { price } }'), ask(one), ask(one)]);
    const before = counts.title;
    await cache.invalidateTags(["Note:a"]);
    await ask(one);
    expect(counts.title).toBe(before + 1);
  });

  it.each(["Price:1", "Note:a", "Stock:S1"])("while it is built: %s", async (tag) => {
    const { ask, cache, counts, held } = open();
    const one = gate();
    held.until = one.passed;
    const first = ask(query);
    await settle();
    await settle();
    await cache.invalidateTags([tag]);
    one.open();
    held.until = undefined;
    await first;
    const before = counts.title;
    await ask(query);
    expect(counts.title).toBe(before + 1);
  });

  it("unless it is an invalidation of something else", async () => {
    const site = open();
    for (const tag of ["Price:2", "Note:b", "Stock:S2"])
      expect(await isReached(site, query, () => site.cache.invalidateTags([tag]))).toBe(false);
    expect(
      await isReached(site, query, () => site.cache.invalidate({ coordinate: "Query.page", args: { n: 2 } })),
    ).toBe(false);
  });
});

it("keeps the subtrees of callers apart by the context paths in the keys of cached fields below", async () => {
  const { ask, counts } = open();
  const answers = [];
  for (const locale of ["de", "en", "de"])
    answers.push((await ask("{ page { title greeting } }", { locale })).data?.page);
  expect(answers).toEqual([
    { title: "title 1", greeting: "Hallo" },
    { title: "title 2", greeting: "Hello" },
    { title: "title 1", greeting: "Hallo" },
  ]);
  expect(counts.title).toBe(2);
});

describe("two subtrees that are built at once in one request", () => {
  const query = '{ a: page(n: 1) { id title note(id: "a") price } b: page(n: 2) { id title note(id: "b") price } }';

  /** Returns which of the two an invalidation reaches. */
  async function reachedBy(tag: string): Promise<string[]> {
    const { ask, cache } = open();
    const first = (await ask(query)).data as Record<string, { title: string }>;
    await cache.invalidateTags([tag]);
    await settle();
    const second = (await ask(query)).data as Record<string, { title: string }>;
    return ["a", "b"].filter((name) => first[name]?.title !== second[name]?.title);
  }

  it.each([
    ["Price:1", "a"],
    ["Price:2", "b"],
  ])("each have the cached fields that they have read, and no others: %s", async (tag, expected) => {
    expect(await reachedBy(tag)).toEqual([expected]);
  });

  // Which of them a read of a loader is for is not known in every case, so it counts for both.
  it.each([
    ["Note:a", "a"],
    ["Note:b", "b"],
  ])("each have what they have read of a loader: %s", async (tag, expected) => {
    expect(await reachedBy(tag)).toContain(expected);
  });

  it("are both stored, and both reached, if they read the same id of a loader one after the other", async () => {
    const { ask, cache, counts, held } = open();
    const one = gate();
    held.until = one.passed;
    // The title holds the first, whose note is read by then.
    const same = '{ a: page(n: 1) { note(id: "a") title } b: page(n: 2) { later: title note(id: "a") } }';
    const first = ask(same);
    await settle();
    one.open();
    await first;
    await ask(same);
    expect([counts.title, counts.note]).toEqual([2, 1]);
    await cache.invalidateTags(["Note:a"]);
    await ask(same);
    expect([counts.title, counts.note]).toEqual([4, 2]);
  });

  it("load the ids of a loader in a batch each, since neither may depend on what the other has asked for", async () => {
    const { ask, counts, cache } = open();
    const batches: string[] = [];
    const { ask: askOther } = openSubtrees({
      typeDefs:
        "type Query { a: Page @cached(maxAge: 60, subtree: true) b: Page @cached(maxAge: 60, subtree: true) } type Page { id: ID! note: String }",
      resolvers: {
        Query: { a: () => ({ id: 1 }), b: () => ({ id: 2 }) },
        Page: { note: ({ id }: { id: number }, _: unknown, context: object) => notes(context).load(id) },
      },
    });
    const notes = cache.loader<number, string>({
      name: "Shared",
      maxAge: 60,
      batch: async (ids) => {
        batches.push(ids.join());
        return ids.map((id) => `note ${id}`);
      },
    });
    expect((await askOther("{ a { note } b { note } }")).data).toEqual({
      a: { note: "note 1" },
      b: { note: "note 2" },
    });
    expect(batches).toEqual(["1", "2"]);
    await ask(query);
    expect(counts.note).toBe(2);
  });

  it("have DataLoaders of their own, if they are keyed by the context", async () => {
    const { ask, counts } = open();
    const { data } = await ask("{ a: page(n: 1) { likes } b: page(n: 2) { likes } }");
    expect(data).toEqual({ a: { likes: "likes of 1" }, b: { likes: "likes of 2" } });
    expect(counts.batches).toEqual(["1", "2"]);
  });
});

it("a subtree contains no value that a DataLoader of its request, keyed by the context, had before", async () => {
  const { ask, cache, counts } = open();
  for (let time = 1; time <= 2; time++) {
    expect((await ask("{ page { id likes } likes(id: 1) }")).data).toMatchObject({ page: { likes: "likes of 1" } });
    expect(counts.batches).toHaveLength(2 * time);
    await cache.invalidate({ coordinate: "Query.page" });
  }
});

it("an entity that a mutation returns invalidates the subtrees that show it, though they select no id", async () => {
  let name = "old";
  const { ask } = openSubtrees({
    typeDefs: /* GraphQL */ `
      type Query { page: Page @cached(maxAge: 60, subtree: true) }
      type Mutation { rename(id: ID!): Author }
      type Page { id: ID! author: Author }
      type Author { id: ID! name: String }
    `,
    resolvers: {
      Query: { page: () => ({ id: 1 }) },
      Mutation: {
        rename: (_: unknown, { id }: { id: string }) => {
          name = "new";
          return { id, name };
        },
      },
      Page: { author: () => ({ id: 7, name }) },
    },
    applied: { entityTags: true },
  });
  const query = "{ page { author { name } } }";
  expect((await ask(query)).data).toEqual({ page: { author: { name: "old" } } });
  await ask("mutation { rename(id: 7) { name } }");
  expect((await ask(query)).data).toEqual({ page: { author: { name: "new" } } });
});
