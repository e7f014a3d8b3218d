import { AsyncLocalStorage } from "node:async_hooks";
import { type FakeClock, gate, settle } from "@graphql-cached/testing";
import type { GraphQLObjectType, GraphQLResolveInfo } from "graphql";
import { memoryStore } from "graphql-cached";
import { describe, expect, it } from "vitest";
import { abortSignal, client } from "../../support/client.js";
import { executeWithSignal } from "../../support/execution-signal.js";
import { withoutMessages } from "../../support/without-messages.js";
import { dataOf, memoryWorld, pair, timedWorld, type World } from "../../support/world.js";

type Load = (context: object, id?: number) => Promise<number>;
type Resolve = (source: unknown, args: never, context: object, info: GraphQLResolveInfo) => unknown;
type Batch = (ids: readonly number[], context: object) => Promise<readonly (number | Error)[]>;

/** A resolver that reads the product. */
const reading =
  (load: Load): Resolve =>
  (_, __, context) =>
    load(context);

const TAGS = ["Product:7"];
const TAGGED = '@cached(maxAge: 60, tags: ["Product:7"])';

/** A process whose resolvers read products by a loader, of which `policy` is more settings. */
function start(
  world: World,
  sdl: string,
  resolversOf: (load: Load) => object,
  batch: Batch,
  policy = {},
  options = {},
) {
  const load: Load = (context, id = 7) => products(context).load(id);
  const process = world.process(sdl, resolversOf(load), options);
  const products = process.cache.loader({ name: "Product", maxAge: 60, tags: () => TAGS, batch, ...policy });
  return { ...process, products };
}

/** Lets time pass that nothing should need. */
async function passSecond(clock: FakeClock): Promise<void> {
  for (let waited = 0; waited < 1_000; waited += 100) {
    await settle();
    await clock.advance(100);
  }
}

/**
 * Two processes. In both, `offer.price` is a cached field whose load reads the product with `read`, by default through a
 * loader, and `slow` begins it when `go` opens.
 */
function createShop(
  read: (load: Load, context: object, info: GraphQLResolveInfo) => unknown = (load, context) => load(context),
) {
  const world = memoryWorld();
  const source = { price: 100 };
  const [begun, go] = pair(gate);
  const typeDefs = `
    type Query { now: Int base: Int ${TAGGED} slow: Offer offer: Offer }
    type Offer { price: Int @cached(maxAge: 60, key: [], tags: ["Product:7"]) }
  `;
  const resolversOf = (load: Load) => {
    const slow = async () => (begun.open(), await go.passed, {});
    const price: Resolve = (_, __, context, info) => read(load, context, info);
    return { Query: { now: reading(load), base: reading(load), slow, offer: () => ({}) }, Offer: { price } };
  };
  const [one, two] = pair(() => start(world, typeDefs, resolversOf, async (ids) => ids.map(() => source.price)));
  return { one, two, begun, go, source };
}

/** Asks a cached field of the query type in a load. */
const readBase = (_load: Load, context: object, info: GraphQLResolveInfo): unknown => {
  const base = (info.schema.getQueryType() as GraphQLObjectType).getFields().base?.resolve as Resolve;
  return base({}, {} as never, context, info);
};

describe("a load that begins after an invalidation", () => {
  it.each<[what: string, before: "now" | "base", by: "one" | "two", read?: typeof readBase]>([
    ["its request has read before", "now", "two"],
    ["its request has read before, although its own process has invalidated it", "now", "one"],
    ["another cached field of its request has returned before", "base", "two", readBase],
    ["another load of its request has read before", "base", "two"],
  ])("does not store what %s", async (_, before, by, read) => {
    const shop = createShop(read);
    const { one, two, begun, go, source } = shop;
    const first = dataOf(one.ask(`{ ${before} slow { price } }`, {}));
    await begun.passed;
    await settle();
    source.price = 200;
    await shop[by].cache.invalidateTags(TAGS);
    go.open();
    expect(await first).toEqual({ [before]: 100, slow: { price: 200 } });
    await settle();
    for (const { ask } of [one, two])
      expect(await dataOf(ask("{ base offer { price } }", {}))).toEqual({ base: 200, offer: { price: 200 } });
  });

  it("does not store what was primed before", async () => {
    const { one, two, source } = createShop();
    const context = {};
    one.products(context).prime(7, 100);
    source.price = 200;
    await two.cache.invalidateTags(TAGS);
    expect(await dataOf(one.ask("{ now offer { price } }", context))).toEqual({ now: 100, offer: { price: 200 } });
  });

  it("does not store what an older load of its request has primed meanwhile", async () => {
    const [read, prime, reading, primed] = [gate(), gate(), gate(), gate()];
    const source = { price: 100 };
    const primeLate: Resolve = async (_, __, context) => {
      const { price } = source;
      read.open();
      await prime.passed;
      products(context).prime(7, price);
      primed.open();
      return price;
    };
    const { ask, cache, products } = start(
      memoryWorld(),
      `type Query { old: Int ${TAGGED} }`,
      () => ({ Query: { old: primeLate } }),
      async (ids) => ids.map(() => source.price),
    );
    const latest = cache.wrap({
      name: "latest",
      maxAge: 60,
      tags: TAGS,
      context: (context: object) => context,
      load: async (context: object) => {
        reading.open();
        await primed.passed;
        return products(context).load(7);
      },
    });
    const context = {};
    const old = dataOf(ask("{ old }", context));
    await read.passed;
    source.price = 200;
    await cache.invalidateTags(TAGS);
    const now = latest(context);
    await reading.passed;
    prime.open();
    expect([await old, await now]).toEqual([{ old: 100 }, 200]);
    await settle();
    expect(await latest({})).toBe(200);
  });
});

describe("a load", () => {
  it("reads an id once, and gets what it has primed itself", async () => {
    let isSame: boolean | undefined;
    const { one } = createShop(async (load, context) => {
      const [some, others] = [load(context), load(context)];
      isSame = some === others;
      one.products(context).prime(8, 300);
      return (await some) + (await load(context, 8));
    });
    expect(await dataOf(one.ask("{ offer { price } }", {}))).toEqual({ offer: { price: 400 } });
    expect(isSame).toBe(true);
  });

  it("does not get what another load of its request has primed, which only that may know", async () => {
    const { one } = createShop(async (load, context) => {
      one.products(context).prime(7, 1);
      return load(context);
    });
    expect(await dataOf(one.ask("{ offer { price } base }", {}))).toEqual({ offer: { price: 1 }, base: 100 });
  });

  it("gets what the batch function of a load inside of it has primed", async () => {
    const calls: (readonly number[])[] = [];
    const batch: Batch = async (ids) => (calls.push(ids), [...ids]);
    const sum = async (_: unknown, { n }: { n: number }, context: object) =>
      (await orders(context).load(n)) + (await products(context).load(8));
    const { ask, cache, products } = start(
      memoryWorld(),
      "type Query { sum(n: Int!): Int @cached(maxAge: 60) }",
      () => ({ Query: { sum } }),
      batch,
    );
    const orders = cache.loader<number, number, object>({
      name: "Order",
      maxAge: 60,
      batch: async (ids, context) => {
        products(context).prime(8, 80);
        return [...ids];
      },
    });
    expect(await dataOf(ask("{ one: sum(n: 1) two: sum(n: 2) }", {}))).toEqual({ one: 81, two: 82 });
    expect(calls).toEqual([]);
  });

  it("gets an object of its own, whatever other loads of its request do to theirs", async () => {
    const changed: Resolve = async (_, __, context) => {
      const list = await lists(context).load("x");
      list.splice(1);
      return list;
    };
    const { ask, cache } = memoryWorld().process(
      "type Query { top: [Int] @cached(maxAge: 60) all: [Int] @cached(maxAge: 60) twice: Boolean @cached(maxAge: 60) }",
      {
        Query: {
          top: changed,
          all: ((_, __, context) => lists(context).load("x")) satisfies Resolve,
          twice: (async (_, __, context) => {
            const [one, two] = await lists(context).loadMany(["x", "x"]);
            return one === two;
          }) satisfies Resolve,
        },
      },
    );
    const lists = cache.loader<string, number[], object>({
      name: "List",
      maxAge: 60,
      batch: async (ids) => ids.map(() => [1, 2, 3]),
    });
    const expected = { top: [1], all: [1, 2, 3], twice: true };
    expect(await dataOf(ask("{ top all twice }", {}))).toEqual(expected);
    await settle();
    expect(await dataOf(ask("{ top all twice }", {}))).toEqual(expected);
  });

  it("reads an id once together with the loads of its request that have begun with it, however long that takes", async () => {
    const world = timedWorld();
    const ready = gate();
    const calls: (readonly number[])[] = [];
    const sumOf =
      (load: Load) =>
      async (_: unknown, { n }: { n: number }, context: object) =>
        n + (await load(context));
    const { ask } = start(
      world,
      "type Query { sum(n: Int!): Int @cached(maxAge: 60) }",
      (load) => ({ Query: { sum: sumOf(load) } }),
      async (ids) => (calls.push(ids), await ready.passed, [...ids]),
    );
    const sums = dataOf(ask("{ one: sum(n: 1) two: sum(n: 2) three: sum(n: 3) }", {}));
    await passSecond(world.clock);
    ready.open();
    expect([await sums, calls]).toEqual([{ one: 8, two: 9, three: 10 }, [[7]]]);
  });

  it("does not fail because another one that has read the same id has no waiters any more", async () => {
    const ready = gate();
    const { schema } = start(
      memoryWorld(),
      "type Query { one: Int @cached(maxAge: 60) two: Int @cached(maxAge: 60) }",
      (load) => ({ Query: { one: reading(load), two: reading(load) } }),
      async (ids) => (await ready.passed, [...ids]),
    );
    const context = {};
    const leaving = client();
    const one = executeWithSignal(schema, "{ one }", context, leaving.signal);
    const two = executeWithSignal(schema, "{ two }", context, client().signal);
    await settle();
    leaving.hangUp();
    await one;
    ready.open();
    expect(await dataOf(two)).toEqual({ two: 7 });
  });

  it("reads again what it has cleared, or what its process has invalidated meanwhile", async () => {
    const seen: number[] = [];
    const { one, source } = createShop(async (load, context) => {
      const look = async (): Promise<void> => void seen.push(await load(context));
      await look();
      source.price = 200;
      await one.cache.invalidateTags(TAGS);
      await look();
      source.price = 300;
      await look();
      one.products(context).clear(7);
      await one.cache.invalidate({ loader: "Product", id: 7 });
      await look();
      return 1;
    });
    await one.ask("{ offer { price } }", {});
    expect(seen).toEqual([100, 200, 200, 300]);
  });

  it("reads a field again that its process has invalidated, also if another load of its request was the first to", async () => {
    let price = 100;
    const { passed, open } = gate();
    const read = (context: object, info: GraphQLResolveInfo): unknown => readBase(async () => 0, context, info);
    const { ask, cache } = start(
      memoryWorld(),
      `type Query { base: Int ${TAGGED} other: Int @cached(maxAge: 60) changing: Int @cached(maxAge: 60) }`,
      () => ({
        Query: {
          base: () => price,
          changing: async (_: unknown, __: unknown, context: object, info: GraphQLResolveInfo) => {
            await read(context, info);
            price = 200;
            await cache.invalidateTags(TAGS);
            const again = await read(context, info);
            open();
            return again;
          },
          other: async (_: unknown, __: unknown, context: object, info: GraphQLResolveInfo) => {
            await read(context, info);
            await passed;
            return read(context, info);
          },
        },
      }),
      async (ids) => ids,
    );
    expect(await dataOf(ask("{ other changing }", {}))).toEqual({ other: 200, changing: 200 });
  });

  it("does not store what is in memory for two seconds, which may not know yet of an invalidation", async () => {
    let price = 100;
    const world = memoryWorld(() => withoutMessages(memoryStore()));
    const resolversOf = (load: Load) => ({ Query: { price: reading(load) } });
    const batch: Batch = async (ids) => ids.map(() => price);
    const startShop = (options: object) =>
      start(world, `type Query { price: Int ${TAGGED} }`, resolversOf, batch, {}, options);
    const [one, two] = [startShop({ memory: { maxStalenessMs: 2_000 } }), startShop({})];
    await one.products({}).load(7);
    await settle();
    for (let nth = 0; nth < 3; nth++) await one.products({}).load(7);
    price = 200;
    await two.cache.invalidateTags(TAGS);
    expect(await one.products({}).load(7)).toBe(100);
    for (const { ask } of [one, two]) {
      expect(await dataOf(ask("{ price }", {}))).toEqual({ price: 200 });
      await settle();
    }
  });

  it("that asks its own loader for another id of its batch gets the value of a load of its own", async () => {
    const calls: (readonly number[])[] = [];
    const batch: Batch = async (ids, context) => {
      calls.push(ids);
      const two = ids.includes(1) ? await products(context).load(2) : 0;
      return ids.map((id) => id + two);
    };
    const world = timedWorld();
    const { products } = start(world, "type Query { unused: Int }", () => ({}), batch);
    const both = products({}).loadMany([1, 2]);
    await passSecond(world.clock);
    expect([await both, calls]).toEqual([
      [3, 4],
      [[1, 2], [2]],
    ]);
  });

  it("that ends without waiters is not stored as a failure of another load that has joined it", async () => {
    const world = memoryWorld();
    const [ready, joined] = pair(gate);
    let shared: Promise<number> | undefined;
    const resolversOf = (load: Load) => {
      const first: Resolve = (_, __, context) => (shared = load(context));
      // As with a memo of the user: it waits for what the load of another field has begun.
      const second = (_: unknown, __: unknown, { isRetry }: { isRetry?: boolean }) => (
        joined.open(), isRetry ? 8 : shared
      );
      return { Query: { first, second } };
    };
    const sdl = "type Query { first: Int @cached(maxAge: 60) second: Int @cached(maxAge: 60) }";
    const batch: Batch = async (ids) => (await ready.passed, [...ids]);
    const [one, two] = pair(() => start(world, sdl, resolversOf, batch, {}, { loads: { abortSignal } }));
    const { signal, hangUp } = client();
    const first = one.ask("{ first }", { signal });
    await settle();
    const second = one.ask("{ second }", {});
    await joined.passed;
    hangUp();
    await Promise.all([first, second]);
    await settle();
    for (const { ask } of [one, two]) expect(await dataOf(ask("{ second }", { isRetry: true }))).toEqual({ second: 8 });
    ready.open();
  });
});

describe("a stale value that a load reads", () => {
  function createField(refresh: "BACKGROUND" | "FOREGROUND" = "BACKGROUND") {
    const world = timedWorld();
    const source = { price: 100, calls: 0, error: undefined as Error | undefined, ready: Promise.resolve() };
    const batch: Batch = async (ids) => {
      source.calls++;
      await source.ready;
      if (source.error !== undefined) throw source.error;
      return ids.map(() => source.price);
    };
    const process = start(
      world,
      `type Query { price: Int @cached(maxAge: 600, staleWhileRevalidate: 600, refresh: ${refresh}, tags: ["Product:7"]) }`,
      (load) => ({ Query: { price: reading(load) } }),
      batch,
      { maxAge: 600, staleWhileRevalidate: 600, refresh },
    );
    const price = async (): Promise<unknown> => {
      const data = (await dataOf(process.ask("{ price }", {}))) as { readonly price: unknown };
      await settle();
      return data.price;
    };
    return { ...process, clock: world.clock, source, price };
  }

  it.each(["BACKGROUND", "FOREGROUND"] as const)(
    "is replaced first, so that a soft invalidation of both takes effect (%s)",
    async (refresh) => {
      const { cache, source, price } = createField(refresh);
      expect(await price()).toBe(100);
      source.price = 200;
      await cache.invalidateTags(TAGS, { soft: true });
      // Served stale while it is refreshed.
      if (refresh === "BACKGROUND") expect(await price()).toBe(100);
      expect(await price()).toBe(200);
    },
  );

  it("is replaced first when it has expired, so that its age does not add up", async () => {
    const { clock, source, price } = createField();
    expect(await price()).toBe(100);
    source.price = 200;
    await clock.advance(700_000);
    expect([await price(), await price()]).toEqual([100, 200]);
  });

  it("is replaced first, however long that takes", async () => {
    const { clock, cache, source, price } = createField();
    expect(await price()).toBe(100);
    const ready = gate();
    Object.assign(source, { ready: ready.passed, price: 200 });
    await cache.invalidateTags(TAGS, { soft: true });
    expect(await price()).toBe(100);
    await clock.advance(1_000);
    ready.open();
    await settle();
    expect([await price(), source.calls]).toEqual([200, 2]);
  });

  it("is used if its source fails", async () => {
    const { clock, cache, source, price } = createField();
    expect(await price()).toBe(100);
    await clock.advance(700_000);
    source.error = new Error("the source is away");
    await cache.invalidate({ coordinate: "Query.price" });
    expect(await price()).toBe(100);
  });
});

it("fields of one operation see what the operation has invalidated through the cache", async () => {
  let value = 1;
  const set = async (_: unknown, { to }: { to: number }) => {
    value = to;
    await cache.invalidateTags(["Movie"]);
    return {};
  };
  const { ask, cache } = memoryWorld().process(
    `type Query { movie: Int @cached(maxAge: 60, tags: ["Movie"]) }
     type Mutation { set(to: Int!): Payload }
     type Payload { query: Query }`,
    { Query: { movie: () => value }, Payload: { query: () => ({}) }, Mutation: { set } },
  );
  const mutation = "mutation { a: set(to: 2) { query { movie } } b: set(to: 3) { query { movie again: movie } } }";
  expect(await dataOf(ask(mutation))).toEqual({ a: { query: { movie: 2 } }, b: { query: { movie: 3, again: 3 } } });
});

it("isTypeOf runs in the asynchronous context of the request whose value it looks at", async () => {
  const user = new AsyncLocalStorage<string>();
  const seen: (readonly unknown[])[] = [];
  const __isTypeOf = (_: unknown, { userId }: { userId: string }) => seen.push([userId, user.getStore()]) > 0;
  const { ask } = memoryWorld().process(
    `interface Node { id: ID }
     type Item implements Node { id: ID }
     type Query { node: Node @cached(maxAge: 60, scope: PRIVATE) }`,
    { Item: { __isTypeOf }, Query: { node: () => ({ id: "1" }) } },
    { identify: ({ userId }: { userId: string }) => userId },
    { entityTags: true },
  );
  await Promise.all(["anna", "ben"].map((userId) => user.run(userId, () => ask("{ node { id } }", { userId }))));
  await settle();
  expect(seen.length).toBeGreaterThan(2);
  for (const [userId, store] of seen) expect(store).toBe(userId);
});
