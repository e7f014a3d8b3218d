import { gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLError, graphql } from "graphql";
import { cachedTypeDefs } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { openSubtrees } from "./site.js";

const policy = "@cached(maxAge: 60, staleIfError: 600, subtree: true)";
const typeDefs = (settings = "@cached(maxAge: 60, subtree: true)"): string => /* GraphQL */ `
  type Query {
    page(id: ID = 1): Page ${settings}
    pages: [Page!]! ${settings}
    sure: Page! ${settings}
    surer: Page! ${settings}
    plain: String
  }
  type Page { id: ID! title: String must: String! kids: [Page] }
`;

function open(settings?: string) {
  const calls: string[] = [];
  /** The names of the fields that fail. */
  const failing = new Set<string>();
  const held: { until: Promise<unknown> | undefined } = { until: undefined };
  const field =
    (name: string, value: unknown) =>
    async (_: unknown, __: unknown, ___: unknown, info: { path: { key: unknown } }) => {
      calls.push(name);
      await held.until;
      if (failing.has(name))
        throw new GraphQLError(`${name} is away (${String(info.path.key)})`, { extensions: { code: "AWAY" } });
      return typeof value === "function" ? (value as () => unknown)() : value;
    };
  let version = 0;
  const page = { id: 1 };
  const resolvers = {
    Query: {
      page: field("page", page),
      pages: field("pages", [{ id: 1 }, { id: 2 }]),
      sure: field("sure", page),
      surer: field("surer", page),
      plain: field("plain", "plain"),
    },
    Page: {
      title: field("title", () => `title ${++version}`),
      must: field("must", "must"),
      kids: field("kids", [{ id: 3 }, null, { id: 4 }]),
    },
  };
  const site = openSubtrees({ typeDefs: typeDefs(settings), resolvers });
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs(settings)], resolvers });
  const expected = async (source: string): Promise<unknown> =>
    JSON.parse(JSON.stringify(await graphql({ schema, source, contextValue: {} })));
  return { ...site, calls, failing, held, expected };
}

/** What fails, in which query. */
const FAILURES: Readonly<Record<string, readonly [failing: readonly string[], query: string]>> = {
  "a child that can be null": [["title"], "{ page { id title } plain }"],
  "a child that cannot": [["must"], "{ page { id must } plain }"],
  "children of several objects": [["must"], "{ page { id kids { id must } } }"],
  "a child of a list whose items cannot be null": [["must"], "{ page { id } sure { id pages: kids { must } } }"],
  "all of a list": [["must"], "{ plain sure { id } pages { id must } }"],
  "the field itself": [["page"], "{ page { id } plain }"],
  "a field of another subtree, and one beside it": [["title", "plain"], "{ a: page { title } b: page { id } plain }"],
  "a fragment that is spread twice": [
    ["title"],
    "{ ...F ...F } fragment F on Query { page { title } other: page { kids { ...T ...T } } } fragment T on Page { title }",
  ],
  "a child under an alias, in several nodes": [
    ["title"],
    "{ x: page { y: title } x: page { ... on Page { y: title } } }",
  ],
};

describe("errors of a build", () => {
  it.each(Object.entries(FAILURES))("are those of an execution without subtrees: %s", async (_, [failing, query]) => {
    const { ask, expected, failing: fails } = open();
    for (const name of failing) fails.add(name);
    const unordered = (answer: unknown): unknown => {
      const { data, errors } = answer as { data: unknown; errors: object[] };
      return { data, errors: new Set(errors.map((error) => JSON.stringify(error))), count: errors.length };
    };
    const answer = unordered(await expected(query));
    for (let time = 0; time < 3; time++) expect(unordered(await ask(query))).toEqual(answer);
  });

  it("are never stored, and the field is executed as without subtrees until the back-off has passed", async () => {
    const { ask, failing, calls, clock, skipped } = open();
    failing.add("title");
    await ask("{ page { id title } }");
    failing.clear();
    expect((await ask("{ page { id title } }")).errors).toBeUndefined();
    // The field itself is cached as ever.
    expect(calls).toEqual(["page", "title", "title"]);
    await clock.advance(10_000);
    await ask("{ page { id title } }");
    await ask("{ page { id title } }");
    expect(calls).toEqual(["page", "title", "title", "title"]);
    expect(skipped()).toEqual(["ERRORS Query.page"]);
  });

  it("are those of the request that ran it: a request that has waited executes the field", async () => {
    const { ask, failing, held, calls } = open();
    const one = gate();
    held.until = one.passed;
    failing.add("title");
    const first = ask("{ page { id title } }");
    await settle();
    const others = [ask("{ page { id title } }"), ask("{ page { id title } }")];
    await settle();
    one.open();
    held.until = undefined;
    const answers = await Promise.all([first, ...others]);
    for (const { data, errors } of answers) {
      expect(data).toEqual({ page: { id: "1", title: null } });
      expect(errors).toEqual([expect.objectContaining({ message: "title is away (title)", path: ["page", "title"] })]);
    }
    expect(calls.filter((name) => name === "page")).toHaveLength(1);
    expect(calls.filter((name) => name === "title")).toHaveLength(3);
  });

  it("do not reach another field of the same request that is answered by an entry", async () => {
    const { ask, failing } = open();
    await ask("{ a: page(id: 1) { id title } }");
    failing.add("title");
    const { data, errors } = await ask("{ a: page(id: 1) { id title } b: page(id: 2) { id title } }");
    expect(data).toEqual({ a: { id: "1", title: "title 1" }, b: { id: "1", title: null } });
    expect(errors).toHaveLength(1);
  });
});

describe("within staleIfError", () => {
  const query = "{ page { id title } }";

  it("the older complete subtree is served if a child fails, without errors", async () => {
    const { ask, failing, clock } = open(policy);
    const first = await ask(query);
    await clock.advance(61_000);
    failing.add("title");
    expect(await ask(query)).toEqual(first);
    await clock.advance(700_000);
    expect((await ask(query)).errors).toHaveLength(1);
  });

  it("the older complete subtree is served to those who have waited", async () => {
    const { ask, failing, clock, held, calls } = open(policy);
    const first = await ask(query);
    await clock.advance(61_000);
    failing.add("title");
    const one = gate();
    held.until = one.passed;
    const waiting = [ask(query), ask(query), ask(query)];
    await settle();
    one.open();
    expect(await Promise.all(waiting)).toEqual([first, first, first]);
    // One build for all of them.
    expect(calls.filter((name) => name === "title")).toHaveLength(2);
  });

  it("the errors are shown if there is no older one", async () => {
    const { ask, failing, expected } = open(policy);
    failing.add("must");
    for (let time = 0; time < 2; time++)
      expect(await ask("{ page { must } plain }")).toEqual(await expected("{ page { must } plain }"));
  });
});
