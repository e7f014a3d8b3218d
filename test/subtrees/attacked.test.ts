import { FakeClock } from "@graphql-cached/testing";
import { parse } from "graphql";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { MIN_READS } from "../../src/core/subtrees/hit-ratio.js";
import { openSubtrees } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query {
    page: Page @cached(maxAge: 60, subtree: true)
    feed: Feed @cached(maxAge: 60, subtree: true)
    broken: Page @cached(maxAge: 60, subtree: true)
  }
  type Page { id: ID! mine: String self: Page secret: String @cached(maxAge: 0) bad: String }
  type Feed { items: [Item!]! }
  type Item { id: ID name: String secret: String @cached(maxAge: 0) }
`;

interface Item {
  readonly id: string | null;
  readonly name: string;
}

/** `mine`: what is read of the context. `items`: those of the feed, which are not cached by themselves. */
function open({ mine, items }: { mine?: (context: unknown) => unknown; items?: () => readonly Item[] } = {}) {
  const calls: string[] = [];
  const site = openSubtrees({
    typeDefs,
    cache: { identify: () => undefined, subtrees: { maxSelections: 2 } },
    resolvers: {
      Query: { page: () => ({ id: 1 }), feed: () => ({}), broken: () => ({ id: 2 }) },
      Page: {
        mine: (_: unknown, __: unknown, context: unknown) => mine?.(context) ?? null,
        bad: () => {
          calls.push("bad");
          throw new Error("bad");
        },
      },
      Feed: {
        items: () => {
          calls.push("items");
          return items?.() ?? [];
        },
      },
      Item: { secret: ({ name }: Item) => `of ${name}` },
    },
  });
  /** Executes a document that was parsed for this request alone. */
  const execute = async (query: string, contextValue: unknown = {}) => {
    const { data, errors } = await site.cache.execute(
      { schema: site.schema, document: parse(query), contextValue },
      false,
    );
    await site.cache.settled();
    return { data: JSON.parse(JSON.stringify(data)) as Record<string, unknown>, errors };
  };
  const count = (name: string): number => calls.filter((call) => call === name).length;
  const builds = (): number =>
    site.events.filter(({ name, ...event }) => name === "load.started" && "isSubtree" in event && event.isSubtree)
      .length;
  return { ...site, execute, count, builds };
}

it.each<[string, (user: string) => unknown, (context: unknown) => unknown]>([
  ["a text", (user) => user, (context) => context],
  ["a number", (user) => user.length, (context) => String(context)],
  ["a function", (user) => Object.assign(() => undefined, { user }), (context) => (context as { user: string }).user],
])("a subtree is not shared with other callers if the context is %s", async (_, contextOf, mine) => {
  const { execute, skipped } = open({ mine });
  const users = ["ann", "bobby", "ann"];
  for (const user of users) {
    const { data } = await execute("{ page { mine } }", contextOf(user));
    expect(data).toEqual({ page: { mine: mine(contextOf(user)) } });
  }
  expect(skipped()).toContain("CONTEXT_FROZEN Query.page");
});

it("an operation with thousands of fields has subtrees for the first of them, and the answer of all", async () => {
  const { execute, skipped, builds } = open();
  const aliases = Array.from({ length: 2_000 }, (_, nth) => `a${nth}`);
  const { data } = await execute(`{ ${aliases.map((alias) => `${alias}: page { ...F }`).join(" ")} }
    fragment F on Page { id }`);
  expect(Object.keys(data)).toEqual(aliases);
  expect(skipped()).toContain("TOO_MANY_SELECTIONS Query.page");
  expect(builds()).toBeLessThanOrEqual(1);
});

it("a selection that is too deep for a subtree has the answer that it has without", async () => {
  const { execute, skipped } = open();
  const depth = 1_500;
  const { data, errors } = await execute(`{ page { ${"self {".repeat(depth)} secret ${"}".repeat(depth)} } }`);
  expect(errors).toBeUndefined();
  expect(data).toEqual({ page: { self: null } });
  expect(skipped()).toEqual(["TOO_MANY_SELECTIONS Query.page"]);
});

it("a field has one selection, whatever its alias and what else the documents contain", async () => {
  const { execute, skipped } = open();
  for (let nth = 0; nth < 3; nth++)
    await execute(
      `{ a${nth}: page { ...F } broken { ...G } } fragment F on Page { id } fragment G on Page { x${nth}: id }`,
    );
  expect(skipped()).toEqual(["TOO_MANY_SELECTIONS Query.broken"]);
});

it("what could not be stored is not built again for a while, also for clients whose documents are parsed each time", async () => {
  const { execute, builds, count } = open();
  for (let nth = 1; nth <= 3; nth++) {
    const { errors } = await execute("{ broken { bad } }");
    expect(errors).toHaveLength(1);
    expect(count("bad")).toBe(nth);
  }
  expect(builds()).toBe(1);
});

it("objects whose id is null are not taken for one another when holes are filled", async () => {
  let items: readonly Item[] = ["a", "b"].map((name) => ({ id: null, name }));
  const { ask } = open({ items: () => items });
  const query = "{ feed { items { name secret } } }";
  await ask(query);
  items = [...items].reverse();
  const { data } = await ask(query);
  expect(data).toEqual({
    feed: { items: ["b", "a"].map((name) => ({ name, secret: `of ${name}` })) },
  });
});

it("a selection whose entries are always about other objects than the holes ends as fields", async () => {
  let nth = 0;
  const { ask, count, skipped } = open({ items: () => [{ id: String(nth++), name: "x" }] });
  for (let request = 0; request < MIN_READS; request++) await ask("{ feed { items { name secret } } }");
  const before = count("items");
  await ask("{ feed { items { name secret } } }");
  expect(count("items") - before).toBe(1);
  expect(skipped()).toEqual(["HIT_RATIO Query.feed"]);
});

it("a release with another default of an argument below the field shares no subtrees", async () => {
  const clock = new FakeClock();
  const store = memoryStore({ clock });
  for (const fallback of ["SHORT", "LONG"]) {
    const { ask } = openSubtrees({
      typeDefs: `
        type Query { page: Page @cached(maxAge: 60, subtree: true) }
        type Page { title(form: Form = ${fallback}): String }
        enum Form { SHORT LONG }
      `,
      clock,
      store,
      resolvers: { Query: { page: () => ({}) }, Page: { title: (_: unknown, { form }: { form: string }) => form } },
    });
    expect((await ask("{ page { title } }")).data).toEqual({ page: { title: fallback } });
  }
});

it("the value of a scalar keeps names that stand for hidden ids", async () => {
  const value = { $$t: "t", $$i: "i", nested: [{ $$t: 1 }] };
  const { ask } = openSubtrees({
    typeDefs: `
      scalar JSON
      type Query { page: Page @cached(maxAge: 60, subtree: true) }
      type Page { id: ID! json: JSON list: [JSON] mine: Int @cached(maxAge: 0) }
    `,
    resolvers: { Query: { page: () => ({ id: 1, json: value, list: [value] }) }, Page: { mine: () => 1 } },
  });
  for (let time = 0; time < 3; time++) {
    expect((await ask("{ page { json list } }")).data).toEqual({ page: { json: value, list: [value] } });
    expect((await ask("{ page { json mine list } }")).data).toEqual({ page: { json: value, mine: 1, list: [value] } });
  }
});
