import { ApolloServer } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { type CacheOptions, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";
import { dataOf, memoryWorld } from "../../support/world.js";

describe("slots for loads", () => {
  /** A process whose loads each wait at a gate of their own. Begun: their ids, in order. */
  function start(loads: CacheOptions["loads"]) {
    const gates = new Map<string, ReturnType<typeof gate>>();
    const begun: string[] = [];
    const pass = async (id: string): Promise<string> => {
      begun.push(id);
      const own = gate();
      gates.set(id, own);
      await own.passed;
      return id;
    };
    const made = memoryWorld().process(
      "type Query { slow(id: ID): ID @cached(maxAge: 60) loaded(id: ID): ID }",
      {
        Query: {
          slow: (_: unknown, { id }: { id: string }) => pass(id),
          loaded: (_: unknown, { id }: { id: string }, context: object) => loaderOf(context).load(id),
        },
      },
      { loads },
    );
    const loaderOf = made.cache.loader({
      name: "loaded",
      maxAge: 60,
      maxBatchSize: 1,
      batch: ([id]: readonly string[]) => pass(id as string).then((value) => [value]),
    });
    const untilBegun = async (count: number): Promise<void> => {
      while (begun.length < count) await settle();
      for (let more = 0; more < 10; more++) await settle();
      expect(begun).toHaveLength(count);
    };
    const openAll = async (asked: readonly Promise<unknown>[]): Promise<void> => {
      let isOver = false;
      void Promise.allSettled(asked).then(() => (isOver = true));
      while (!isOver) {
        for (const each of gates.values()) each.open();
        await settle();
      }
    };
    return { ...made, gates, begun, untilBegun, openAll };
  }
  const aliases = (field: string, count: number): string =>
    `{ ${Array.from({ length: count }, (_, n) => `a${n}: ${field}(id: "a${n}")`).join(" ")} }`;

  for (const field of ["slow", "loaded"])
    it(`of which one request has half leave the others free for the next one (${field})`, async () => {
      const { ask, begun, untilBegun, openAll } = start({ maxConcurrentLoads: 6 });
      const many = ask(aliases(field, 20), {});
      await untilBegun(3);
      const others = ["b", "c"].map((id) => ask(`{ ${field}(id: "${id}") }`, {}));
      await untilBegun(5);
      expect(begun.slice(3)).toEqual(["b", "c"]);
      await openAll([many, ...others]);
      expect(Object.keys((await dataOf(many)) as object)).toHaveLength(20);
    });

  it("are given to requests in turn, and never more than half of them to one", async () => {
    const { ask, gates, begun, untilBegun, openAll } = start({ maxConcurrentLoads: 4 });
    const first = ask(aliases("slow", 8));
    await untilBegun(2);
    const second = ask(aliases("slow", 8).replaceAll('"a', '"b'));
    await untilBegun(4);
    const third = ask('{ slow(id: "c") }');
    await untilBegun(4);
    for (const [nth, ended] of ["a0", "a1", "c", "b0"].entries()) {
      gates.get(ended)?.open();
      await untilBegun(5 + nth);
    }
    expect(begun).toEqual(["a0", "a1", "b0", "b1", "a2", "c", "a3", "b2"]);
    await openAll([first, second, third]);
  });

  it("are all of one request in turn if there is one only", async () => {
    const { ask, begun, untilBegun, openAll } = start({ maxConcurrentLoads: 1 });
    const many = ask(aliases("slow", 4));
    await untilBegun(1);
    await openAll([many]);
    expect(begun).toHaveLength(4);
  });

  it("have a queue of which one request has half, so that the loads of the next are not refused", async () => {
    const { ask, untilBegun, openAll } = start({ maxConcurrentLoads: 2, maxQueuedLoads: 10 });
    const many = ask(aliases("slow", 20));
    await untilBegun(1);
    const second = ask('{ slow(id: "b") }');
    await untilBegun(2);
    const third = ask('{ slow(id: "c") }');
    await openAll([many, second, third]);
    expect((await many).errors).toHaveLength(14);
    expect((await many).errors?.[0]?.message).toContain("half of `maxQueuedLoads`");
    expect([await dataOf(second), await dataOf(third)]).toEqual([{ slow: "b" }, { slow: "c" }]);
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
    const create = (maxTagCombinations: number) =>
      createCache({ defaultScope: "PUBLIC", limits: { maxTagCombinations } });
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
