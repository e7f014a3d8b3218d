import { ApolloServer } from "@apollo/server";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { type CacheOptions, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { partsOf } from "../../../src/core/parts.js";
import { PrivateReader } from "../../../src/core/tier/request/waiters.js";
import { overrideStore } from "../../support/override-store.js";
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
    expect((await many).errors?.[0]?.message).toContain("half of `loads.maxQueuedLoads`");
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

  /** Fields with tags of one kind, and of others, and mutations that change many by one list. */
  const INVALIDATING = `
    type Query {
      one(id: ID): Item @cached(maxAge: 600, tags: ["T:{$args.id}"])
      dashed(id: ID): Int @cached(maxAge: 600, tags: ["part-{$args.id}"])
      other: Int @cached(maxAge: 600, tags: ["Other:7"])
      untagged: Int @cached(maxAge: 600)
    }
    type Item { id: ID }
    type Mutation {
      both(a: [ID!], b: [ID!]): Int @invalidates(tags: ["T:{$args.a[]}:{$args.b[]}"])
      list(ids: [ID!]): Int @invalidates(tags: ["T:{$args.ids[]}"])
      dashes(ids: [ID!]): Int @invalidates(tags: ["part-{$args.ids[]}"])
      entities(ids: [ID!]): [Item]
      code(ids: [ID!]): Int
    }
  `;
  function startInvalidating() {
    const clock = new FakeClock();
    const world = memoryWorld(() => memoryStore({ clock }));
    let loads = 0;
    const process = world.process(
      INVALIDATING,
      {
        Query: {
          one: (_: unknown, { id }: { id: string }) => (loads++, { id }),
          dashed: () => ++loads,
          other: () => ++loads,
          untagged: () => ++loads,
        },
        Mutation: {
          both: () => 1,
          list: () => 1,
          dashes: () => 1,
          entities: (_: unknown, { ids }: { ids: string[] }) => ids.map((id) => ({ id })),
          code: async (_: unknown, { ids }: { ids: string[] }) => {
            await process.cache.invalidateTags(ids.map((id) => `T:${id}`));
            return 1;
          },
        },
      },
      { testing: { clock } } as never,
      { entityTags: true } as never,
    );
    /** Returns how many of these are loaded. */
    const loadsOf = async (query: string): Promise<number> => {
      const before = loads;
      expect((await process.ask(query)).errors).toBeUndefined();
      await settle();
      return loads - before;
    };
    const subjectsOf = (): number =>
      process.events.reduce((sum, event) => sum + (event.name === "invalidation.finished" ? event.tags.length : 0), 0);
    return { ...process, clock, logged: process.warnings, loadsOf, subjectsOf };
  }
  const OTHERS = "{ other untagged }";

  it.each([
    ["list", "{ one(id: 1) { id } }", (size: number) => `list(ids: ${ids(size)})`],
    ["list whose tags have another separator", "{ dashed(id: 1) }", (size: number) => `dashes(ids: ${ids(size)})`],
    ["list of entities", "{ one(id: 1) { id } }", (size: number) => `entities(ids: ${ids(size)}) { id }`],
    ["list that a resolver passes on", "{ one(id: 1) { id } }", (size: number) => `code(ids: ${ids(size)})`],
  ])("with a %s invalidates those values and no others, however often it is sent", async (_what, query, change) => {
    const { ask, loadsOf, subjectsOf, clock } = startInvalidating();
    expect(await loadsOf(query)).toBe(1);
    expect(await loadsOf(OTHERS)).toBe(2);
    for (let request = 0; request < 20; request++)
      expect((await ask(`mutation { ${change(9_000)} }`)).errors).toBeUndefined();
    // A record of its own for each request that is small, and for each alias.
    for (let request = 0; request < 20; request++)
      await ask(`mutation { ${Array.from({ length: 10 }, (_, n) => `a${n}: ${change(500)}`).join(" ")} }`);
    expect(subjectsOf()).toBeLessThan(30_000);
    expect(await loadsOf(query)).toBe(1);
    expect(await loadsOf(OTHERS)).toBe(0);
    await clock.advance(61_000);
    await ask(`mutation { ${change(20)} }`);
    expect(await loadsOf(query)).toBe(1);
    expect(await loadsOf(OTHERS)).toBe(0);
  });

  it("with a short list invalidates the values of its members only", async () => {
    const { ask, loadsOf, logged } = startInvalidating();
    expect(await loadsOf("{ a: one(id: 1) { id } b: one(id: 2000) { id } }")).toBe(2);
    await ask(`mutation { list(ids: ${ids(500)}) }`);
    expect(await loadsOf("{ a: one(id: 1) { id } b: one(id: 2000) { id } }")).toBe(1);
    expect(logged).toEqual([]);
  });

  it("cannot multiply what a mutation invalidates: all that begins like these tags is invalidated at once", async () => {
    const { ask, loadsOf, events, logged } = startInvalidating();
    await loadsOf("{ one(id: 1) { id } }");
    await loadsOf(OTHERS);
    for (let request = 0; request < 2; request++) await ask(`mutation { both(a: ${ids(300)}, b: ${ids(300)}) }`);
    const invalidated = events.flatMap((event) => (event.name === "invalidation.finished" ? [event] : []));
    expect(invalidated.map(({ tagCount, isClear }) => [tagCount, isClear])).toEqual([
      [1, false],
      [1, false],
    ]);
    expect(await loadsOf("{ one(id: 1) { id } }")).toBe(1);
    expect(await loadsOf(OTHERS)).toBe(0);
    expect(logged).toHaveLength(1);
    expect(logged[0]).toContain("so all that begins like them is invalidated: expected at most");
    expect(logged[0]).toContain("maxTagCombinations");
  });

  it("is bounded by no more tags than a mutation can invalidate one by one", () => {
    const create = (maxTagCombinations: number) =>
      createCache({ defaultScope: "PUBLIC", limits: { maxTagCombinations } });
    const allowed = create(10_000);
    onTestFinished(() => allowed.close());
    expect(() => create(10_001)).toThrow("`limits.maxTagCombinations`: expected an integer from 1 to 10000, got 10001");
  });

  it.each([
    ["keys", ""],
    ["tags", ', key: ["$args.nth"], tags: ["T:{$args.list[]}"]'],
  ])("cannot have one large variable copied into the %s of all its aliases", async (_, settings) => {
    const { ask, outcomes } = memoryWorld().process(
      `type Query { find(list: [String], nth: Int): Int @cached(maxAge: 60${settings}) }`,
      { Query: { find: (__: unknown, { nth }: { nth: number }) => nth } },
      { limits: { maxKeyBytes: 50_000 } },
    );
    const aliases = Array.from({ length: 100 }, (__, n) => `a${n}: find(list: $list, nth: ${n})`).join(" ");
    const list = Array.from({ length: 10 }, (__, n) => `${n}${"x".repeat(1_000)}`);
    const data = (await dataOf(ask(`query ($list: [String]) { ${aliases} }`, {}, { list }))) as object;
    expect(Object.values(data)).toEqual(Array.from({ length: 100 }, (__, n) => n));
    const { loaded = 0, "bypassed(KEY_UNUSABLE)": bypassed = 0 } = outcomes();
    expect(loaded + bypassed).toBe(100);
    expect(loaded).toBeLessThan(10);
  });

  it("caches its other fields, though hundreds of keys of one have no text", async () => {
    class Id {}
    const { ask, outcomes } = memoryWorld().process(
      'scalar Any type Query { list: [Item] } type Item { id: Any a: Int @cached(maxAge: 60) n: Int b: Int @cached(maxAge: 60, key: ["$source.n"]) }',
      {
        Query: { list: () => Array.from({ length: 200 }, (_, n) => ({ id: new Id(), n })) },
        Item: { a: () => 1, b: () => 2 },
      },
    );
    await dataOf(ask("{ list { a b } }"));
    expect(outcomes()).toEqual({ "bypassed(KEY_UNUSABLE)": 200, loaded: 200 });
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

describe("thousands of tags that are invalidated", () => {
  const TAGS = Array.from({ length: 9_000 }, (_, nth) => `Movie:${nth}`);

  /** A process whose store takes invalidations without confirming them while `isPartial`. `loadsIn` returns how often what has none of the tags was loaded after so many seconds. */
  async function start() {
    const clock = new FakeClock();
    const state = { isPartial: false, loads: 0 };
    const inner = memoryStore({ clock });
    const appendClock: Store["appendClock"] = async (records, ...more) => {
      const head = await inner.appendClock(records, ...more);
      if (state.isPartial && records.length > 0) throw new Error("a copy of the clock is away");
      return head;
    };
    const made = memoryWorld(() => overrideStore(inner, { appendClock })).process(
      "type Query { unrelated: Int @cached(maxAge: 3600) }",
      { Query: { unrelated: () => ++state.loads } },
      { testing: { clock, random: () => 0.5 } } as never,
    );
    const loadsIn = async (seconds: number): Promise<number> => {
      for (let second = 0; second < seconds; second++) {
        await clock.advance(1_000);
        await dataOf(made.ask("{ unrelated }"));
      }
      return state.loads;
    };
    await loadsIn(1);
    return { ...made, clock, state, loadsIn };
  }

  it("do not empty the cache while the write lasts, for which they are marked all the time", async () => {
    const { cache, clock, events, loadsIn } = await start();
    const { passed, open } = gate();
    const films = cache.loader<number, number>({
      name: "Film",
      maxAge: 60,
      tags: (id) => [`Movie:${id}`],
      batch: async (ids) => ids,
    });
    const written = cache.mutate({ tags: TAGS }, () => passed);
    expect(await loadsIn(60)).toBe(1);
    await films({}).load(7);
    expect(events.findLast(({ name }) => name === "resolver.bypassed")).toMatchObject({ reason: "WRITE_IN_PROGRESS" });
    open();
    await clock.advance(1_000);
    await written;
  });

  it("do not empty the cache while the store does not confirm them, and are confirmed when it can", async () => {
    const { cache, clock, events, state, loadsIn } = await start();
    state.isPartial = true;
    await expect(cache.invalidateTags(TAGS)).rejects.toMatchObject({ code: "CACHED_STORE_UNAVAILABLE" });
    expect(await loadsIn(30)).toBe(1);
    state.isPartial = false;
    await clock.advance(30_000);
    expect(events.findLast(({ name }) => name === "invalidation.finished")).toMatchObject({ isConfirmed: true });
  });
});

it("looks for PRIVATE values in a part of what an argument holds that is not in the key", async () => {
  let looks = 0;
  const count = {
    getOwnPropertyDescriptor: (row: object, name: PropertyKey) => (looks++, Object.getOwnPropertyDescriptor(row, name)),
  };
  const rows = Array.from({ length: 20_000 }, (_, id) => new Proxy<{ id: number }>({ id }, count));
  const { cache } = memoryWorld().process("type Query { unused: Int }", {});
  const priceOf = cache.wrap({
    name: "price",
    maxAge: 60,
    context: (_, __, context: object) => context,
    key: (_, id) => id,
    load: (catalog: typeof rows, id: number, _context: object) => catalog[id]?.id,
  });
  expect(await priceOf(rows, 7, {})).toBe(7);
  expect(looks).toBeLessThan(5_000);
});

it("keeps nothing of the calls that have started a call which bypasses the cache, such as a poll", async () => {
  const { cache } = memoryWorld().process(
    "type Query { film: Film } type Film { id: ID title: ID @cached(maxAge: 60) }",
    {},
  );
  const running = gate();
  const depthOf = (call: { readonly outer?: object } | undefined): number =>
    call?.outer === undefined ? 0 : 1 + depthOf(call.outer as never);
  const { loads } = partsOf(cache, "test").tier;
  const done = gate();
  let depth = 0;
  const poll = cache.wrap({
    name: "poll",
    maxAge: 60,
    load: async (nth: number): Promise<number> => {
      depth = Math.max(depth, depthOf(loads.reader() as never));
      setImmediate(() => (nth < 20 ? void poll(nth + 1) : done.open()));
      return nth;
    },
  });
  const slow = cache.wrap({ name: "slow", maxAge: 60, load: () => running.passed });
  cache.setMode("off", "poll");
  const other = slow();
  await poll(1);
  await done.passed;
  running.open();
  await other;
  expect(depth).toBe(0);
});

it("notes whose PRIVATE values the loads of a batch read at the cost of both, and not of one for each of the other", async () => {
  const notes = vi.spyOn(PrivateReader.prototype, "readPrivate");
  onTestFinished(() => notes.mockRestore());
  const { cache } = memoryWorld().process("type Query { unused: Int }", {});
  const COUNT = 300;
  const profile = cache.wrap({
    name: "profile",
    scope: "PRIVATE",
    maxAge: 60,
    identify: (id: number) => id + 1,
    load: (id: number) => id,
  });
  const rows = cache.loader<number, number, object>({
    name: "Row",
    maxAge: 60,
    batch: async (ids) => {
      await Promise.all(Array.from({ length: COUNT }, (_, owner) => profile(owner)));
      return ids;
    },
  });
  await rows({}).loadMany(Array.from({ length: COUNT }, (_, id) => id));
  expect(notes.mock.calls.length).toBeGreaterThan(COUNT);
  expect(notes.mock.calls.length).toBeLessThan(10 * COUNT);
});
