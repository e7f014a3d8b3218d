import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, type Gate, gate, settle } from "@graphql-cached/testing";
import type { GraphQLObjectType, GraphQLResolveInfo } from "graphql";
import { type CachedLoader, memoryStore } from "graphql-cached";
import type { Store, StoreListener, StoreNames } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { executeWithSignal } from "../../support/execution-signal.js";
import { dataOf, memoryWorld } from "../../support/world.js";

type Load = (context: object, id: number) => Promise<number>;
type Resolve = (source: unknown, args: object, context: unknown, info: GraphQLResolveInfo) => unknown;

const TAGS = ["Product:7"];

/**
 * Two processes. In both, `offer.price` is a cached field whose load reads the product with `read`, by default through a
 * loader, and `slow` begins it when `go` opens.
 */
function createShop(read: (load: Load, context: object) => Promise<number> = (load, context) => load(context, 7)) {
  const world = memoryWorld();
  const source = { price: 100 };
  const [begun, go]: [Gate, Gate] = [gate(), gate()];
  const start = () => {
    const process = world.process(
      `type Query { now: Int base: Int @cached(maxAge: 60, tags: ["Product:7"]) slow: Offer offer: Offer }
       type Offer { price: Int @cached(maxAge: 60, key: [], tags: ["Product:7"]) }`,
      {
        Query: {
          now: (_: unknown, __: unknown, context: object) => load(context, 7),
          base: (_: unknown, __: unknown, context: object) => load(context, 7),
          slow: async () => {
            begun.open();
            await go.passed;
            return {};
          },
          offer: () => ({}),
        },
        Offer: { price: (_: unknown, __: unknown, context: object) => read(load, context) },
      },
    );
    const products = process.cache.loader({
      name: "Product",
      maxAge: 60,
      tags: () => TAGS,
      batch: async (ids: readonly number[]) => ids.map(() => source.price),
    });
    const load: Load = (context, id) => products(context).load(id);
    return { ...process, products };
  };
  return { one: start(), two: start(), begun, go, source };
}

describe("a load that begins after an invalidation", () => {
  it.each(["one", "two"] as const)(
    "does not store what its request has read before, although process %s has invalidated it",
    async (name) => {
      const { one, two, begun, go, source } = createShop();
      const first = dataOf(one.ask("{ now slow { price } }", {}));
      await begun.passed;
      await settle();
      source.price = 200;
      await { one, two }[name].cache.invalidateTags(TAGS);
      go.open();
      expect(await first).toEqual({ now: 100, slow: { price: 200 } });
      await settle();
      for (const process of [one, two])
        expect(await dataOf(process.ask("{ offer { price } }", {}))).toEqual({ offer: { price: 200 } });
    },
  );

  it("does not store what another cached field of its request has returned before", async () => {
    const world = memoryWorld();
    let price = 100;
    const [begun, go] = [gate(), gate()];
    const ofBase: Resolve = (_, __, context, info) => {
      const inner = (info.schema.getQueryType() as GraphQLObjectType).getFields().base?.resolve as Resolve;
      return inner({}, {}, context, info);
    };
    const start = () =>
      world.process(
        `type Query { base: Int @cached(maxAge: 60, tags: ["Product:7"]) slow: Offer offer: Offer }
         type Offer { price: Int @cached(maxAge: 60, key: [], tags: ["Product:7"]) }`,
        {
          Query: {
            base: () => price,
            slow: async () => {
              begun.open();
              await go.passed;
              return {};
            },
            offer: () => ({}),
          },
          Offer: { price: ofBase },
        },
      );
    const [one, two] = [start(), start()];
    const first = dataOf(one.ask("{ base slow { price } }", {}));
    await begun.passed;
    await settle();
    price = 200;
    await two.cache.invalidateTags(TAGS);
    go.open();
    expect(await first).toEqual({ base: 100, slow: { price: 200 } });
    await settle();
    expect(await dataOf(two.ask("{ offer { price } }", {}))).toEqual({ offer: { price: 200 } });
  });

  it("does not store what another load of its request has read before", async () => {
    const { one, two, begun, go, source } = createShop();
    const first = dataOf(one.ask("{ base slow { price } }", {}));
    await begun.passed;
    await settle();
    source.price = 200;
    await two.cache.invalidateTags(TAGS);
    go.open();
    expect(await first).toEqual({ base: 100, slow: { price: 200 } });
    await settle();
    expect(await dataOf(two.ask("{ base offer { price } }", {}))).toEqual({ base: 200, offer: { price: 200 } });
  });

  it("does not store what was primed before", async () => {
    const { one, two, source } = createShop();
    const context = {};
    one.products(context).prime(7, 100);
    source.price = 200;
    await two.cache.invalidateTags(TAGS);
    expect(await dataOf(one.ask("{ now offer { price } }", context))).toEqual({ now: 100, offer: { price: 200 } });
  });
});

describe("a load", () => {
  it("reads an id once, and gets what it has primed itself", async () => {
    let isSame: boolean | undefined;
    const { one } = createShop(async (load, context) => {
      const [some, others] = [load(context, 7), load(context, 7)];
      isSame = some === others;
      one.products(context).prime(8, 300);
      return (await some) + (await load(context, 8));
    });
    expect(await dataOf(one.ask("{ offer { price } }", {}))).toEqual({ offer: { price: 400 } });
    expect(isSame).toBe(true);
  });

  it("reads an id once together with the loads of its request that have begun with it, however long that takes", async () => {
    const clock = new FakeClock();
    const ready = gate();
    const calls: (readonly number[])[] = [];
    const { ask, cache } = memoryWorld(() => memoryStore({ clock })).process(
      "type Query { sum(n: Int!): Int @cached(maxAge: 60) }",
      {
        Query: {
          sum: async (_: unknown, { n }: { n: number }, context: object) => n + (await products(context).load(7)),
        },
      },
      { testing: { clock } },
    );
    const products = cache.loader({
      name: "Product",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        calls.push(ids);
        await ready.passed;
        return [...ids];
      },
    });
    const sums = dataOf(ask("{ one: sum(n: 1) two: sum(n: 2) three: sum(n: 3) }", {}));
    for (let waited = 0; waited < 1_000; waited += 100) {
      await settle();
      await clock.advance(100);
    }
    ready.open();
    expect(await sums).toEqual({ one: 8, two: 9, three: 10 });
    expect(calls).toEqual([[7]]);
  });

  it("does not fail because another one that has read the same id has no waiters any more", async () => {
    const ready = gate();
    const process = memoryWorld().process("type Query { one: Int @cached(maxAge: 60) two: Int @cached(maxAge: 60) }", {
      Query: {
        one: (_: unknown, __: unknown, context: object) => products(context).load(7),
        two: (_: unknown, __: unknown, context: object) => products(context).load(7),
      },
    });
    const products = process.cache.loader({
      name: "Product",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        await ready.passed;
        return [...ids];
      },
    });
    const context = {};
    const controller = new AbortController();
    const one = executeWithSignal(process.schema, "{ one }", context, controller.signal);
    const two = executeWithSignal(process.schema, "{ two }", context, new AbortController().signal);
    await settle();
    controller.abort(new Error("the execution has ended"));
    await one;
    ready.open();
    expect(await dataOf(two)).toEqual({ two: 7 });
  });

  it("reads again what it has cleared, or what its process has invalidated meanwhile", async () => {
    const seen: number[] = [];
    const { one, source } = createShop(async (load, context) => {
      const look = async (): Promise<void> => void seen.push(await load(context, 7));
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

  it("does not store what is in memory for two seconds, which may not know yet of an invalidation", async () => {
    let price = 100;
    const inner = memoryStore();
    const world = memoryWorld(
      () =>
        new Proxy(inner, {
          get(target, property) {
            if (property === "open")
              return (names: StoreNames, { wake }: StoreListener) => target.open(names, { wake });
            const value: unknown = Reflect.get(target, property, target);
            return typeof value === "function" ? value.bind(target) : value;
          },
        }) as Store,
    );
    const start = (options: object) => {
      const process = world.process(
        `type Query { price: Int @cached(maxAge: 60, tags: ["Product:7"]) }`,
        { Query: { price: (_: unknown, __: unknown, context: object) => products(context).load(7) } },
        options,
      );
      const products = process.cache.loader({
        name: "Product",
        maxAge: 60,
        tags: () => TAGS,
        batch: async (ids: readonly number[]) => ids.map(() => price),
      });
      return { ...process, products };
    };
    const [one, two] = [start({ memory: { maxStalenessMs: 2_000 } }), start({})];
    await one.products({}).load(7);
    await settle();
    for (let nth = 0; nth < 3; nth++) await one.products({}).load(7);
    price = 200;
    await two.cache.invalidateTags(TAGS);
    expect(await one.products({}).load(7)).toBe(100);
    expect(await dataOf(one.ask("{ price }", {}))).toEqual({ price: 200 });
    await settle();
    expect(await dataOf(two.ask("{ price }", {}))).toEqual({ price: 200 });
  });
});

it("a batch function that asks its own loader for another id of its batch gets the value of a load of its own", async () => {
  const clock = new FakeClock();
  const { cache } = memoryWorld(() => memoryStore({ clock })).process(
    "type Query { unused: Int }",
    {},
    { testing: { clock } },
  );
  const calls: (readonly number[])[] = [];
  const sums: (context: object) => CachedLoader<number, number> = cache.loader({
    name: "Sum",
    maxAge: 60,
    batch: async (ids: readonly number[], context: object) => {
      calls.push(ids);
      const two = ids.includes(1) ? await sums(context).load(2) : 0;
      return ids.map((id) => id + two);
    },
  });
  const both = sums({}).loadMany([1, 2]);
  for (let waited = 0; waited < 1_000; waited += 100) {
    await settle();
    await clock.advance(100);
  }
  expect(await both).toEqual([3, 4]);
  expect(calls).toEqual([[1, 2], [2]]);
});

describe("a stale value that a load reads", () => {
  const stalePolicy = (refresh: string) => `maxAge: 600, staleWhileRevalidate: 600, refresh: ${refresh}`;

  function createField(refresh: "BACKGROUND" | "FOREGROUND") {
    const clock = new FakeClock();
    const source: { price: number; calls: number; error?: Error; isReady?: Promise<unknown> } = {
      price: 100,
      calls: 0,
    };
    const process = memoryWorld(() => memoryStore({ clock })).process(
      `type Query { price: Int @cached(${stalePolicy(refresh)}, tags: ["Product:7"]) }`,
      { Query: { price: (_: unknown, __: unknown, context: object) => products(context).load(7) } },
      { testing: { clock } },
    );
    const products = process.cache.loader({
      name: "Product",
      maxAge: 600,
      staleWhileRevalidate: 600,
      refresh,
      tags: () => TAGS,
      batch: async (ids: readonly number[]) => {
        source.calls++;
        await source.isReady;
        if (source.error !== undefined) throw source.error;
        return ids.map(() => source.price);
      },
    });
    const priceNow = async (): Promise<unknown> => {
      const { price } = (await dataOf(process.ask("{ price }", {}))) as { readonly price: unknown };
      await settle();
      return price;
    };
    return { ...process, clock, source, products, priceNow };
  }

  it.each(["BACKGROUND", "FOREGROUND"] as const)(
    "is replaced first, so that a soft invalidation of both takes effect (%s)",
    async (refresh) => {
      const { cache, source, priceNow } = createField(refresh);
      expect(await priceNow()).toBe(100);
      source.price = 200;
      await cache.invalidateTags(TAGS, { soft: true });
      // Served stale while it is refreshed.
      if (refresh === "BACKGROUND") expect(await priceNow()).toBe(100);
      expect(await priceNow()).toBe(200);
    },
  );

  it("is replaced first when it has expired, so that its age does not add up", async () => {
    const { clock, source, priceNow } = createField("BACKGROUND");
    expect(await priceNow()).toBe(100);
    source.price = 200;
    await clock.advance(700_000);
    expect(await priceNow()).toBe(100);
    expect(await priceNow()).toBe(200);
  });

  it("is replaced first, however long that takes", async () => {
    const { clock, cache, source, priceNow } = createField("BACKGROUND");
    expect(await priceNow()).toBe(100);
    const ready = gate();
    source.isReady = ready.passed;
    source.price = 200;
    await cache.invalidateTags(TAGS, { soft: true });
    expect(await priceNow()).toBe(100);
    await clock.advance(1_000);
    await settle();
    ready.open();
    await settle();
    expect(await priceNow()).toBe(200);
    expect(source.calls).toBe(2);
  });

  it("is used if its source fails", async () => {
    const { clock, cache, source, priceNow } = createField("BACKGROUND");
    expect(await priceNow()).toBe(100);
    await clock.advance(700_000);
    source.error = new Error("the source is away");
    await cache.invalidate({ coordinate: "Query.price" });
    expect(await priceNow()).toBe(100);
  });
});

it("the end of a load without waiters is not stored as a failure of another load that has joined it", async () => {
  const world = memoryWorld();
  const open = gate();
  const joined = gate();
  let shared: Promise<number> | undefined;
  const start = () => {
    const process = world.process(
      "type Query { first: Int @cached(maxAge: 60) second: Int @cached(maxAge: 60) }",
      {
        Query: {
          first: (_: unknown, __: unknown, context: object) => read(context),
          // As with a memo of the user: it waits for what the load of another field has begun.
          second: (_: unknown, __: unknown, { isRetry = false }: { isRetry?: boolean }) => {
            joined.open();
            return isRetry ? 8 : shared;
          },
        },
      },
      { loads: { abortSignal: ({ signal }: { signal?: AbortSignal }) => signal } },
    );
    const products = process.cache.loader({
      name: "Product",
      maxAge: 60,
      batch: async (ids: readonly number[]) => {
        await open.passed;
        return [...ids];
      },
    });
    const read = (context: object): Promise<number> => {
      shared = products(context).load(7);
      return shared;
    };
    return process;
  };
  const [one, two] = [start(), start()];
  const controller = new AbortController();
  const first = one.ask("{ first }", { signal: controller.signal });
  await settle();
  const second = one.ask("{ second }", {});
  await joined.passed;
  controller.abort(new Error("the client has gone"));
  await Promise.all([first, second]);
  await settle();
  for (const process of [one, two])
    expect(await dataOf(process.ask("{ second }", { isRetry: true }))).toEqual({ second: 8 });
  open.open();
});

it("fields of one operation see what the operation has invalidated through the cache", async () => {
  let value = 1;
  const { ask, cache } = memoryWorld().process(
    `type Query { movie: Int @cached(maxAge: 60, tags: ["Movie"]) }
     type Mutation { set(to: Int!): Payload }
     type Payload { query: Query }`,
    {
      Query: { movie: () => value },
      Payload: { query: () => ({}) },
      Mutation: {
        set: async (_: unknown, { to }: { to: number }) => {
          value = to;
          await cache.invalidateTags(["Movie"]);
          return {};
        },
      },
    },
  );
  expect(
    await dataOf(ask("mutation { a: set(to: 2) { query { movie } } b: set(to: 3) { query { movie again: movie } } }")),
  ).toEqual({ a: { query: { movie: 2 } }, b: { query: { movie: 3, again: 3 } } });
});

it("isTypeOf runs in the asynchronous context of the request whose value it looks at", async () => {
  const user = new AsyncLocalStorage<string>();
  const seen: (readonly unknown[])[] = [];
  const { ask } = memoryWorld().process(
    `interface Node { id: ID }
     type Item implements Node { id: ID }
     type Query { node: Node @cached(maxAge: 60, scope: PRIVATE) }`,
    {
      Item: {
        __isTypeOf: (_: unknown, context: { userId: string }) => {
          seen.push([context.userId, user.getStore()]);
          return true;
        },
      },
      Query: { node: () => ({ id: "1" }) },
    },
    { identify: ({ userId }: { userId: string }) => userId },
    { entityTags: true },
  );
  await Promise.all(["anna", "ben"].map((userId) => user.run(userId, () => ask("{ node { id } }", { userId }))));
  await settle();
  expect(seen.length).toBeGreaterThan(2);
  for (const [userId, store] of seen) expect(store).toBe(userId);
});
