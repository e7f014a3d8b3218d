import { settle } from "@graphql-cached/testing";
import { GraphQLError, parse } from "graphql";
import { describe, expect, it } from "vitest";
import { MIN_READS, PASSED } from "../../src/core/subtrees/hit-ratio.js";
import { openSubtrees, type SubtreeSiteOptions } from "./site.js";

const typeDefs = /* GraphQL */ `
  directive @other on FIELD | FRAGMENT_SPREAD | INLINE_FRAGMENT | FRAGMENT_DEFINITION | QUERY
  type Query { page(n: Int): Page @cached(maxAge: 60, subtree: true) plain: String bare: Page }
  type Page {
    id: ID!
    title: String
    price: Int @cached(maxAge: 60)
    user: String
    broken: String
    big: String
    rows: [Row!]
    things: [Thing!]
  }
  type Row { text: String mine: String @cached(maxAge: 0) }
  type Thing { id: ID! mine: String @cached(maxAge: 0) }
`;

function open(options: Partial<SubtreeSiteOptions> = {}) {
  const calls: string[] = [];
  const field =
    (name: string, value: unknown = name) =>
    () => {
      calls.push(name);
      return typeof value === "function" ? (value as () => unknown)() : value;
    };
  const resolvers = {
    Query: { page: field("page", { id: 1 }), plain: field("plain") },
    Page: {
      title: field("title", () => `title ${count("title")}`),
      price: field("price", () => count("price")),
      user: (_: unknown, __: unknown, { user }: { user?: string }) => user ?? "guest",
      broken: field("broken", () => {
        throw new GraphQLError("away");
      }),
      big: field("big", () => "x".repeat(5_000)),
      rows: field("rows", [{ text: "row", mine: "own" }]),
      things: field("things", [{ id: 1, mine: "own" }]),
    },
  };
  const count = (name: string): number => calls.filter((call) => call === name).length;
  return { ...openSubtrees({ typeDefs, resolvers, ...options }), calls, count };
}

class Viewer {
  readonly user: string;

  constructor(user: string) {
    this.user = user;
  }
}

describe("a selection is cached field by field, and the reason is reported once:", () => {
  it.each<[string, string]>([
    ["on the field", "{ page @other { title } }"],
    ["in the selection", "{ page { title @other } }"],
    ["on a fragment in the selection", "{ page { ... @other { title } } }"],
    ["on a spread in the selection", "{ page { ...F @other } } fragment F on Page { title }"],
    ["on the definition of a fragment", "{ page { ...F } } fragment F on Page @other { title }"],
    ["on a fragment around the field", "{ ... @other { page { title } } }"],
    ["on a spread around the field", "{ ...F @other } fragment F on Query { page { title } }"],
    ["on the definition of a fragment around the field", "{ ...F } fragment F on Query @other { page { title } }"],
    ["on the operation", "query @other { page { title } }"],
    ["on one of the nodes of the field", "{ page { id } page @other { title } }"],
  ])("a directive %s", async (_, query) => {
    const { ask, skipped, count } = open();
    for (let time = 1; time <= 3; time++)
      expect((await ask(query)).data).toMatchObject({ page: { title: `title ${time}` } });
    expect(skipped()).toEqual(["DIRECTIVE @other"]);
    expect(count("page")).toBe(1);
  });

  it("@include and @skip do not count as directives", async () => {
    const { ask, skipped } = open();
    const query =
      "query ($on: Boolean!) { ... @include(if: $on) { page { title @include(if: $on) ...F @skip(if: false) } } } fragment F on Page { id }";
    for (let time = 1; time <= 2; time++)
      expect((await ask(query, {}, { on: true })).data).toEqual({ page: { title: "title 1", id: "1" } });
    expect(skipped()).toEqual([]);
  });

  it("@defer anywhere in the operation", async () => {
    const { cache, schema, skipped } = open();
    const document = parse("{ page { title } bare { id ... @defer { title } } }");
    expect(cache.prepare(schema, document).document).toBe(document);
    expect(skipped()).toEqual(["DIRECTIVE @defer"]);
  });

  it("a list of objects without ids above a hole", async () => {
    const { ask, skipped, count } = open();
    for (let time = 0; time < 2; time++)
      expect((await ask("{ page { title rows { text mine } } }")).data).toMatchObject({
        page: { rows: [{ text: "row", mine: "own" }] },
      });
    expect(skipped()).toEqual(["LIST_WITHOUT_ID Page.rows"]);
    expect(count("title")).toBe(2);
    for (let time = 0; time < 2; time++) await ask("{ page { title things { id mine } } }");
    expect(skipped()).toHaveLength(1);
    expect(count("title")).toBe(3);
  });

  it("a child that has failed", async () => {
    const { ask, skipped } = open();
    for (let time = 0; time < 2; time++) expect((await ask("{ page { broken } }")).errors).toHaveLength(1);
    expect(skipped()).toEqual(["ERRORS Query.page"]);
  });

  it("a value above maxValueBytes, which is not built again until the back-off has passed", async () => {
    const { ask, skipped, count, clock } = open({ cache: { storage: { maxValueBytes: 1_000 } } });
    for (let time = 0; time < 3; time++) expect((await ask("{ page { big } }")).data).toBeDefined();
    expect(skipped()).toEqual(["TOO_LARGE Query.page"]);
    expect(count("big")).toBe(3);
    await clock.advance(10_000);
    await ask("{ page { big } }");
    expect(skipped()).toEqual(["TOO_LARGE Query.page"]);
  });

  it("a property of the context that is not part of the key", async () => {
    const { ask, skipped } = open();
    for (const user of ["ann", "bob"])
      expect((await ask("{ page { user } }", { user })).data).toEqual({ page: { user } });
    expect(skipped()).toEqual(["CONTEXT_READ user"]);
  });

  it("a context that cannot be watched", async () => {
    const { ask, skipped } = open();
    for (const user of ["ann", "bob"])
      expect((await ask("{ page { user } }", Object.freeze(new Viewer(user)))).data).toEqual({ page: { user } });
    expect(skipped()).toEqual(["CONTEXT_FROZEN Query.page"]);
  });

  it("more parts than an entry can have tags", async () => {
    const { ask, cache, skipped } = openSubtrees({
      typeDefs: "type Query { page: Page @cached(maxAge: 60, subtree: true) } type Page { id: ID! notes: Int }",
      resolvers: {
        Query: { page: () => ({ id: 1 }) },
        Page: {
          notes: async (_: unknown, __: unknown, context: object) =>
            (await notes(context).loadMany(Array.from({ length: 1_100 }, (_item, id) => id))).length,
        },
      },
    });
    const notes = cache.loader<number, number>({
      name: "Note",
      maxAge: 60,
      tags: (id) => [`Note:${id}`],
      batch: async (ids) => ids,
    });
    expect((await ask("{ page { notes } }")).data).toEqual({ page: { notes: 1_100 } });
    expect(skipped()).toEqual(["TOO_MANY_PARTS Query.page"]);
  });

  it("too few hits: a selection of which each request is for another page is tried now and then", async () => {
    const { ask, skipped, count } = open();
    const query = "query ($n: Int) { page(n: $n) { title } }";
    for (let n = 0; n < MIN_READS + 1; n++) await ask(query, {}, { n });
    expect(skipped()).toEqual(["HIT_RATIO Query.page"]);
    // The field itself is cached as ever.
    await ask(query, {}, { n: 59 });
    expect(count("page")).toBe(MIN_READS + 1);
    for (let time = 0; time < PASSED + 10; time++) await ask(query, {}, { n: 59 });
    const before = count("title");
    for (let time = 0; time < 10; time++) await ask(query, {}, { n: 59 });
    expect(count("title")).toBe(before);
  });

  it("more selections than a process keeps: ten thousand of them store as many as maxSelections says", async () => {
    const { cache, schema, ask, skipped, events, clock, count } = open();
    for (let nth = 0; nth < 10_000; nth++) {
      const document = parse(`{ page { t${nth}: title } }`);
      await cache.execute({ schema, document, contextValue: {} }, false);
    }
    await settle();
    const subtrees = () =>
      new Set(events.flatMap((event) => (event.name === "write.finished" && event.isStored ? [event.digest] : [])));
    // And the entry of the field itself.
    expect(subtrees().size).toBe(64 + 1);
    expect(skipped()).toEqual(["TOO_MANY_SELECTIONS Query.page"]);
    expect(count("page")).toBe(1);
    // Those that were not asked for in the last minute make room.
    await clock.advance(30_000);
    await ask("{ page { t1: title } }");
    await clock.advance(31_000);
    for (let nth = 0; nth < 2; nth++) await ask("{ page { late: title } }");
    const before = count("title");
    await ask("{ page { late: title } }");
    expect(count("title")).toBe(before);
  }, 120_000);
});

describe("overrides of a request", () => {
  const query = "{ page { title price } }";

  it("BYPASS neither reads nor stores a subtree", async () => {
    const { ask, cache } = open();
    const bypass = {};
    cache.override(bypass, "BYPASS");
    expect((await ask(query, bypass)).data).toEqual({ page: { title: "title 1", price: 1 } });
    expect((await ask(query)).data).toEqual({ page: { title: "title 2", price: 2 } });
    const again = {};
    cache.override(again, "BYPASS");
    expect((await ask(query, again)).data).toEqual({ page: { title: "title 3", price: 3 } });
    expect((await ask(query)).data).toEqual({ page: { title: "title 2", price: 2 } });
  });

  it("REFRESH builds a subtree and its parts again, and stores them", async () => {
    const { ask, cache } = open();
    await ask(query);
    const refresh = {};
    cache.override(refresh, "REFRESH");
    expect((await ask(query, refresh)).data).toEqual({ page: { title: "title 2", price: 2 } });
    expect((await ask(query)).data).toEqual({ page: { title: "title 2", price: 2 } });
    expect((await ask("{ page { price } }")).data).toEqual({ page: { price: 2 } });
  });
});

describe("modes", () => {
  const query = "{ page { title price } }";

  it.each(["Query.page", "Page.price"])(
    "`off` of %s caches all but this field by field, and back",
    async (coordinate) => {
      const { ask, cache, count, skipped } = open();
      await ask(query);
      await cache.setMode("off", { coordinate });
      await settle();
      for (let time = 2; time <= 3; time++)
        expect((await ask(query)).data).toMatchObject({ page: { title: `title ${time}` } });
      expect(count(coordinate === "Query.page" ? "page" : "price")).toBe(3);
      expect(skipped()).toEqual([`MODE ${coordinate}`]);
      await cache.setMode("on", { coordinate });
      await settle();
      await ask(query);
      const before = count("title");
      await ask(query);
      expect(count("title")).toBe(before);
    },
  );
});

it("the keys of all builds of a request count against its limit: aliases do not multiply it", async () => {
  const { ask, events } = openSubtrees({
    typeDefs: /* GraphQL */ `
      type Query { page(n: Int): Page @cached(maxAge: 60, subtree: true) }
      type Page { id: ID! text(of: String): String @cached(maxAge: 60) }
    `,
    resolvers: {
      Query: { page: (_: unknown, { n }: { n: number }) => ({ id: n }) },
      Page: { text: ({ id }: { id: number }) => `text ${id}` },
    },
    cache: { limits: { maxKeyBytes: 20_000 } },
  });
  const aliases = Array.from({ length: 30 }, (_, n) => `p${n}: page(n: ${n}) { text(of: $of) }`).join(" ");
  const { data } = await ask(`query ($of: String) { ${aliases} }`, {}, { of: "x".repeat(400) });
  expect(data).toMatchObject({ p0: { text: "text 0" }, p29: { text: "text 29" } });
  // Those of the thirty subtrees take most of it, and those of the thirty fields below are too many then.
  const bypassed = events.filter(
    (event) =>
      event.name === "resolver.bypassed" && event.coordinate === "Page.text" && event.reason === "KEY_UNUSABLE",
  );
  expect(bypassed.length).toBeGreaterThan(10);
  expect(bypassed.length).toBeLessThan(30);
});

it("thirty callers at once share one build", async () => {
  const { ask, count } = open();
  const answers = await Promise.all(Array.from({ length: 30 }, () => ask("{ page { title } }")));
  for (const { data } of answers) expect(data).toEqual({ page: { title: "title 1" } });
  expect(count("title")).toBe(1);
});
