import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { openSubtrees } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { page: Page @cached(maxAge: 60, subtree: true) rows(n: Int!): [Row!]! @cached(maxAge: 60, subtree: true) }
  type Page { id: ID! title: String constructor: String tags: [String!] next: Page }
  type Row { id: ID! text: String }
`;
const resolvers = {
  Query: {
    page: () => ({ id: 1, title: "one", constructor: "made", tags: ["a", "b"], next: null }),
    rows: (_: unknown, { n }: { n: number }) => Array.from({ length: n }, (_item, id) => ({ id, text: `row ${id}` })),
  },
};

describe("what is stored of a subtree", () => {
  it("is the JSON of what the client gets, in ordinary objects", async () => {
    const clock = new FakeClock();
    const store = memoryStore({ clock });
    const stored: string[] = [];
    const watched = new Proxy(store, {
      get(target, name) {
        const member = Reflect.get(target, name) as unknown;
        if (typeof member !== "function") return member;
        return (...args: unknown[]) => {
          if (String(name).startsWith("store")) stored.push(textOf(args));
          return (member as (...all: unknown[]) => unknown).apply(target, args);
        };
      },
    });
    const { ask } = openSubtrees({ typeDefs, resolvers, clock, store: watched });
    const { data } = await ask("{ page { b: id a: title tags next { id } constructor } }");
    await settle();
    expect(data).toEqual({ page: { b: "1", a: "one", tags: ["a", "b"], next: null, constructor: "made" } });
    expect(stored.join("\n")).toContain(JSON.stringify(data?.page));
  });

  it("answers a list of twelve thousand objects from one entry", async () => {
    let resolved = 0;
    const { ask } = openSubtrees({
      typeDefs,
      resolvers: { ...resolvers, Row: { text: ({ text }: { text: string }) => (resolved++, text) } },
    });
    const query = "{ rows(n: 12000) { id text } }";
    const first = await ask(query);
    expect((first.data as { rows: unknown[] }).rows).toHaveLength(12_000);
    expect(await ask(query)).toEqual(first);
    expect(resolved).toBe(12_000);
  });
});

/** The text in whatever bytes are in the arguments of a store. */
function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString("utf8");
  if (typeof value === "string") return value;
  if (value instanceof Map) return [...value.values()].map(textOf).join(" ");
  if (typeof value === "object" && value !== null) return Object.values(value).map(textOf).join(" ");
  return "";
}

describe.each(["production", "development"])("a subtree in the near cache, with NODE_ENV %s", (environment) => {
  it("is frozen: a plugin that writes into the response gets a TypeError, and no other caller sees the change", async () => {
    vi.stubEnv("NODE_ENV", environment);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { cache, schema } = openSubtrees({ typeDefs, resolvers, cache: { nearCache: {} } });
    const errors: unknown[] = [];
    const server = new ApolloServer({
      schema,
      plugins: [
        cachedPlugin(cache as never),
        {
          requestDidStart: async () => ({
            willSendResponse: async ({ response: { body } }) => {
              if (body.kind !== "single") return;
              try {
                (body.singleResult.data as { page: { title: string } }).page.title = "changed";
              } catch (error) {
                errors.push(error);
              }
            },
          }),
        },
      ],
    });
    onTestFinished(() => server.stop());
    for (let time = 0; time < 4; time++) {
      const { body } = await server.executeOperation({ query: "{ page { title tags } }" }, { contextValue: {} });
      await settle();
      if (body.kind !== "single") throw new Error("expected a single result");
      expect(JSON.stringify(body.singleResult.data)).toBe('{"page":{"title":"one","tags":["a","b"]}}');
    }
    expect(errors).toHaveLength(4);
    for (const error of errors) expect(error).toBeInstanceOf(TypeError);
  });

  it("is answered without the store", async () => {
    vi.stubEnv("NODE_ENV", environment);
    onTestFinished(() => void vi.unstubAllEnvs());
    const { ask, events } = openSubtrees({ typeDefs, resolvers, cache: { nearCache: {} } });
    for (let time = 0; time < 2; time++) await ask("{ page { title } }");
    const before = events.filter((event) => event.name === "store.finished" && event.operation === "read").length;
    expect((await ask("{ page { title } }")).data).toEqual({ page: { title: "one" } });
    expect(events.filter((event) => event.name === "store.finished" && event.operation === "read")).toHaveLength(
      before,
    );
  });
});

describe("two releases on one store", () => {
  const schema = (title: string, others = ""): string =>
    `type Query { page: Page @cached(maxAge: 60, subtree: true) } type Page { id: ID! title: ${title} } ${others}`;

  it.each<[string, string, unknown, string, unknown]>([
    ["the type of a field", schema("String"), "1", schema("Int"), 1],
    ["whether it can be null", schema("String"), "1", schema("String!"), "2"],
    ["the values of an enum", schema("Kind", "enum Kind { A B }"), "A", schema("Kind", "enum Kind { A C }"), "C"],
    [
      "the version of a cached field",
      schema('String @cached(maxAge: 60, version: "1")'),
      "old",
      schema('String @cached(maxAge: 60, version: "2")'),
      "new",
    ],
    [
      "the key of a cached field",
      schema("String @cached(maxAge: 60)"),
      "old",
      schema('String @cached(maxAge: 60, key: ["$source.id"])'),
      "new",
    ],
    [
      "the members of a union",
      schema("String").replace("page: Page", "page: Any").concat(" union Any = Page"),
      "old",
      schema("String").replace("page: Page", "page: Any").concat(" union Any = Page | More type More { id: ID! }"),
      "new",
    ],
  ])("share no subtree if they differ in %s, and a rollback finds its own", async (what, one, before, other, after) => {
    const store = memoryStore();
    const query = what === "the members of a union" ? "{ page { ... on Page { title } } }" : "{ page { title } }";
    const open = (definitions: string, title: unknown) => {
      const clock = new FakeClock();
      let count = 0;
      const site = openSubtrees({
        typeDefs: definitions,
        resolvers: {
          Query: { page: () => ({ id: 1, __typename: "Page" }) },
          Page: {
            title: () => {
              count++;
              return title;
            },
          },
        },
        store,
        clock,
      });
      return { ask: async () => (await site.ask(query)).data, count: () => count };
    };
    const [first, second] = [open(one, before), open(other, after)];
    expect(await first.ask()).toEqual({ page: { title: before } });
    expect(await second.ask()).toEqual({ page: { title: after } });
    expect(await first.ask()).toEqual({ page: { title: before } });
    expect(first.count()).toBe(1);
  });
});

describe("a subtree with holes", () => {
  it("is not filled with what belongs to other objects: after a change of order it is built again", async () => {
    let order = [1, 2, 3];
    const { ask, cache } = openSubtrees({
      typeDefs: /* GraphQL */ `
        type Query { rows: [Row!]! @cached(maxAge: 60, subtree: true) }
        type Row { id: ID! title: String liked: String @cached(maxAge: 0) }
      `,
      resolvers: {
        Query: { rows: () => order.map((id) => ({ id })) },
        Row: {
          title: ({ id }: { id: number }) => `row ${id}`,
          liked: ({ id }: { id: number }, _: unknown, { user }: { user: string }) => `${user} likes ${id}`,
        },
      },
    });
    const query = "{ rows { title liked } }";
    for (const next of [[1, 2, 3], [3, 1, 2], [3, 1], [], [5]]) {
      order = next;
      // The entry of the field itself becomes newer than that of the other selection.
      const refresh = {};
      cache.override(refresh, "REFRESH");
      await ask("{ rows { id } }", refresh);
      for (const user of ["bob", "ann"])
        expect((await ask(query, { user })).data).toEqual({
          rows: order.map((id) => ({ title: `row ${id}`, liked: `${user} likes ${id}` })),
        });
    }
  });
});
