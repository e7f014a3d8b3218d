import { ApolloServer } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

describe("slots for loads", () => {
  it("are given to requests in turn, however many loads one of them has", async () => {
    const gates = new Map<string, ReturnType<typeof gate>>();
    const begun: string[] = [];
    const { ask } = memoryWorld().process(
      "type Query { slow(id: ID): ID @cached(maxAge: 60) }",
      {
        Query: {
          slow: async (_: unknown, { id }: { id: string }) => {
            begun.push(id);
            const own = gate();
            gates.set(id, own);
            await own.passed;
            return id;
          },
        },
      },
      { loads: { maxConcurrentLoads: 2 } },
    );
    const many = ask(`{ ${Array.from({ length: 8 }, (_, n) => `a${n}: slow(id: "a${n}")`).join(" ")} }`);
    while (begun.length < 2) await settle();
    const one = ask('{ slow(id: "b") }');
    await settle();
    gates.get("a0")?.open();
    while (begun.length < 3) await settle();
    gates.get("a1")?.open();
    while (begun.length < 4) await settle();
    expect(begun.slice(2)).toContain("b");
    for (let open = 0; open < 20; open++) {
      for (const each of gates.values()) each.open();
      await settle();
    }
    await Promise.all([many, one]);
  });
});

describe("a value that GraphQL refuses", () => {
  it("is not stored on Apollo Server, whose plugins replace all resolvers", async () => {
    let loads = 0;
    const { schema, cache } = memoryWorld().process(
      "type Query { item: Item @cached(maxAge: 60) } type Item { id: ID! }",
      { Query: { item: () => ({ id: ++loads === 1 ? null : "7" }) } },
    );
    const server = new ApolloServer({
      schema,
      plugins: [
        cachedPlugin(cache),
        { requestDidStart: async () => ({ executionDidStart: async () => ({ willResolveField: () => undefined }) }) },
      ],
    });
    const ask = async () => {
      const { body } = await server.executeOperation({ query: "{ item { id } }" });
      return body.kind === "single" ? { ...body.singleResult.data } : undefined;
    };
    expect(await ask()).toEqual({ item: null });
    await settle();
    expect(await ask()).toEqual({ item: { id: "7" } });
    await server.stop();
  });
});

describe("a small request", () => {
  const ids = (count: number): string => JSON.stringify(Array.from({ length: count }, (_, n) => `${n}`));

  it("cannot multiply the tags of a field, which is not cached then", async () => {
    const { ask, events, outcomes } = memoryWorld().process(
      'type Query { both(a: [ID!], b: [ID!]): Int @cached(maxAge: 60, tags: ["T:{$args.a[]}:{$args.b[]}"]) }',
      { Query: { both: () => 1 } },
    );
    const query = (count: number): string => `{ both(a: ${ids(count)}, b: ${ids(count)}) }`;
    for (let read = 0; read < 2; read++) expect(await dataOf(ask(query(30)))).toEqual({ both: 1 });
    expect(outcomes()).toEqual({ loaded: 1, hit: 1 });
    expect(await dataOf(ask(query(300)))).toEqual({ both: 1 });
    expect(outcomes()).toEqual({ loaded: 1, hit: 1, "bypassed(KEY_UNUSABLE)": 1 });
    expect(events.at(-1)).toMatchObject({ error: { message: expect.stringContaining("maxTagCombinations") } });
  });

  it("cannot multiply what a mutation invalidates: everything is invalidated at once", async () => {
    let loads = 0;
    const { ask, events } = memoryWorld().process(
      `
        type Query { one: Int @cached(maxAge: 60) }
        type Mutation { change(a: [ID!], b: [ID!]): Int @invalidates(tags: ["T:{$args.a[]}:{$args.b[]}"]) }
      `,
      { Query: { one: () => ++loads }, Mutation: { change: () => 1 } },
    );
    expect(await dataOf(ask("{ one }"))).toEqual({ one: 1 });
    await settle();
    expect(await dataOf(ask(`mutation { change(a: ${ids(300)}, b: ${ids(300)}) }`))).toEqual({ change: 1 });
    const invalidated = events.flatMap((event) => (event.name === "invalidation.finished" ? [event] : []));
    expect(invalidated.length).toBeLessThanOrEqual(1);
    expect(await dataOf(ask("{ one }"))).toEqual({ one: 2 });
  });

  it("is bounded by no more tags than a mutation can invalidate one by one", () => {
    const create = (maxTagCombinations: number) => createCache({ limits: { maxTagCombinations } });
    const allowed = create(10_000);
    onTestFinished(() => allowed.close());
    expect(() => create(10_001)).toThrow("`limits.maxTagCombinations`: expected an integer from 1 to 10000, got 10001");
  });

  it("cannot have one large variable copied into the keys of all its aliases", async () => {
    const { ask, outcomes } = memoryWorld().process(
      "type Query { find(text: String, nth: Int): Int @cached(maxAge: 60) }",
      { Query: { find: (_: unknown, { nth }: { nth: number }) => nth } },
      { limits: { maxKeyBytes: 50_000 } },
    );
    const aliases = Array.from({ length: 100 }, (_, n) => `a${n}: find(text: $text, nth: ${n})`).join(" ");
    const data = (await dataOf(
      ask(`query ($text: String) { ${aliases} }`, {}, { text: "x".repeat(10_000) }),
    )) as object;
    expect(Object.values(data)).toEqual(Array.from({ length: 100 }, (_, n) => n));
    const { loaded = 0, "bypassed(KEY_UNUSABLE)": bypassed = 0 } = outcomes();
    expect(loaded + bypassed).toBe(100);
    expect(loaded).toBeLessThan(10);
  });

  it("has the selection of a value collected once for each of its fields", async () => {
    const { ask, events } = memoryWorld().process(
      "type Query { page: Page @cached(maxAge: 60) } type Page { text: String! }",
      { Query: { page: () => ({ text: "text" }) } },
    );
    const query = `{ page { ${"text ".repeat(500)} } }`;
    expect(await dataOf(ask(query))).toEqual({ page: { text: "text" } });
    expect(events.some(({ name }) => name === "value.refused")).toBe(false);
  });
});
