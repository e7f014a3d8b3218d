import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { GraphQLInt, GraphQLNonNull, type GraphQLOutputType } from "graphql";
import { memoryStore } from "graphql-cached";
import type { Store, StoreListener, StoreNames } from "graphql-cached/store";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { sharedServer } from "../../support/shared-servers.js";
import { dataOf, memoryWorld, type Process, redisWorld, type World, waitForStores } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    price(id: ID!): Int @cached(maxAge: 600, staleWhileRevalidate: 600, tags: ["Product:{$args.id}"])
    dated(id: ID!): Dated @cached(maxAge: 600, tags: ["Product:{$args.id}"])
    own: String @cached(maxAge: 600, scope: PRIVATE)
  }
  type Dated { price: Int }
`;

interface Context {
  readonly userId?: unknown;
}

/** A store whose messages do not arrive, and what is read of it. */
function watch(store: Store) {
  const reads: (readonly string[])[] = [];
  const hold = { stores: undefined as Promise<void> | undefined };
  const watched = new Proxy(store, {
    get(target, property) {
      if (property === "open") return (names: StoreNames, { wake }: StoreListener) => target.open(names, { wake });
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        if (property === "read") reads.push(args[0] as readonly string[]);
        const go = (): unknown => value.apply(target, args) as unknown;
        return property === "storeValues" && hold.stores !== undefined ? hold.stores.then(go) : go();
      };
    },
  });
  return { store: watched, reads, hold };
}

/** Processes on one store, which get no messages, and a source with a version. */
function fleetOn(world: World) {
  const source = { version: 1, loads: 0 };
  const load = (): number => (source.loads++, source.version);
  const ofUser = ({ userId }: Context): string => (source.loads++, `of ${String(userId)}`);
  const resolvers = {
    Query: {
      price: load,
      dated: () => ({ price: load() }),
      own: (_: unknown, __: unknown, context: Context) => ofUser(context),
    },
  };
  const start = (options: object = {}) => {
    const { store, reads, hold } = watch("store" in options ? (options.store as Store) : world.store());
    const process = world.process(typeDefs, resolvers, {
      identify: (({ userId }: Context) => userId) as never,
      ...options,
      store,
    });
    const prices = process.cache.loader<number, number, Context>({
      name: "Price",
      maxAge: 600,
      tags: (id) => [`Product:${id}`],
      batch: async (ids) => ids.map(load),
    });
    const owns = process.cache.loader<number, string, Context>({
      name: "Own",
      maxAge: 600,
      scope: "PRIVATE",
      batch: async (ids, context) => ids.map(() => ofUser(context)),
    });
    /** A request of its own for both fields and the loader. */
    const readAll = async (): Promise<unknown[]> => {
      const { price, dated } = (await dataOf(process.ask("{ price(id: 7) dated(id: 7) { price } }", {}))) as {
        price: number;
        dated: { price: number };
      };
      return [price, dated.price, await prices({}).load(7)];
    };
    const isInMemory = async (): Promise<boolean> => {
      reads.length = 0;
      await readAll();
      return reads.length > 0 && reads.every((keys) => keys.length === 0);
    };
    const warm = async (): Promise<void> => {
      await readAll();
      await waitForStores(process, 3);
      expect(await isInMemory()).toBe(true);
    };
    return { ...process, reads, hold, prices, owns, readAll, isInMemory, warm };
  };
  return { source, start };
}

const three = (version: number): number[] => [version, version, version];

const WORLDS: readonly (readonly [string, () => Promise<World>])[] = [
  ["the memory store", async () => memoryWorld()],
  ["Redis", redisWorld],
];

const INVALIDATIONS: readonly (readonly [string, (process: Process) => Promise<unknown>])[] = [
  ["a tag", ({ cache }) => cache.invalidateTags(["Product:7"])],
  [
    "their keys",
    ({ cache }) =>
      Promise.all([
        cache.invalidate({ coordinate: "Query.price", args: { id: 7 } }),
        cache.invalidate({ coordinate: "Query.dated", args: { id: 7 } }),
        cache.invalidate({ loader: "Price", id: 7 }),
      ]),
  ],
  [
    "their coordinates",
    ({ cache }) =>
      Promise.all([
        cache.invalidate({ coordinate: "Query.price" }),
        cache.invalidate({ coordinate: "Query.dated" }),
        cache.invalidate({ loader: "Price" }),
      ]),
  ],
  ["everything", ({ cache }) => cache.clear()],
  ["a write", ({ cache }) => cache.mutate({ tags: ["Product:7"] }, () => undefined)],
];

describe.each(WORLDS)("Values in memory, on %s", (_, createWorld) => {
  it.each(INVALIDATIONS)(
    "are not served to a request that begins after another process has invalidated them, without any message: %s",
    async (_name, invalidate) => {
      const { source, start } = fleetOn(await createWorld());
      const [one, other] = [start(), start()];
      await one.warm();
      for (let version = 2; version <= 4; version++) {
        source.version = version;
        await invalidate(other);
        expect(await one.readAll()).toEqual(three(version));
        await waitForStores(one, 3 * version);
        expect(await one.isInMemory()).toBe(true);
      }
    },
  );

  it("are served on if something else was invalidated", async () => {
    const { start } = fleetOn(await createWorld());
    const [one, other] = [start(), start()];
    await one.warm();
    await other.cache.invalidateTags(["Product:8"]);
    expect(await one.isInMemory()).toBe(true);
  });

  it("are what the process has loaded itself, once the store has confirmed them, and they count from their leases", async () => {
    const { source, start } = fleetOn(await createWorld());
    const [one, other] = [start(), start()];
    const stored = gate();
    one.hold.stores = stored.passed;
    expect(await one.readAll()).toEqual(three(1));
    expect(await one.isInMemory()).toBe(false);
    source.version = 2;
    await other.cache.invalidateTags(["Product:7"]);
    one.hold.stores = undefined;
    stored.open();
    await waitForStores(one, 3);
    expect(await one.readAll()).toEqual(three(2));
    await waitForStores(one, 6);
    source.version = 3;
    expect([await one.isInMemory(), await one.readAll(), source.loads]).toEqual([true, three(2), 6]);
  });

  it("are no longer served when they were invalidated softly, while the store serves them as stale", async () => {
    const { source, start } = fleetOn(await createWorld());
    const [one, other] = [start(), start()];
    await one.warm();
    source.version = 2;
    await other.cache.invalidateTags(["Product:7"], { soft: true });
    one.reads.length = 0;
    const before = one.outcomes();
    expect(await dataOf(one.ask("{ price(id: 7) }", {}))).toEqual({ price: 1 });
    expect(one.reads.filter((keys) => keys.length === 1)).toHaveLength(1);
    const { hit, stale } = one.outcomes();
    expect([hit, stale]).toEqual([before.hit, (before.stale ?? 0) + 1]);
    await waitForStores(one, 4);
    expect(await dataOf(one.ask("{ price(id: 7) }", {}))).toEqual({ price: 2 });
  });

  it("never meet those of another identity, be it of a field or of a loader", async () => {
    const { start } = fleetOn(await createWorld());
    const one = start();
    const identities = ["7", "n7", "s7", "a:b", "a", "1:7"];
    const texts = (): Promise<unknown[]> =>
      Promise.all(
        identities.map(async (userId) => {
          const { own } = (await dataOf(one.ask("{ own }", { userId }))) as { own: string };
          return [own, await one.owns({ userId }).load(1)];
        }),
      );
    const expected = identities.map((userId) => [`of ${userId}`, `of ${userId}`]);
    expect(await texts()).toEqual(expected);
    await waitForStores(one, 2 * identities.length);
    one.reads.length = 0;
    for (let nth = 0; nth < 3; nth++) expect(await texts()).toEqual(expected);
    expect(one.reads.flat()).toEqual([]);
    expect(await dataOf(one.ask("{ own }", {}))).toEqual({ own: "of undefined" });
  });
});

describe("Values in memory", () => {
  const infoOf = (process: Process, more: object = {}) => {
    const field = process.schema.getQueryType()?.getFields().price;
    return { schema: process.schema, variableValues: {}, returnType: field?.type, fieldNodes: [], ...more };
  };
  const resolverOf = (process: Process) => {
    const { resolve } = process.schema.getQueryType()?.getFields().price ?? {};
    return (id: string, info: object) => (resolve as (...args: unknown[]) => unknown)(undefined, { id }, {}, info);
  };

  it("come from a promise that reads only the head of the clock first in an execution, and synchronously without a read after that", async () => {
    const { start } = fleetOn(memoryWorld());
    const one = start();
    await one.warm();
    await dataOf(one.ask("{ price(id: 8) }", {}));
    await waitForStores(one, 4);
    for (let execution = 0; execution < 3; execution++) {
      one.reads.length = 0;
      const [price, info] = [resolverOf(one), infoOf(one)];
      const first = [price("7", info), price("7", info), price("8", info)];
      for (const value of first) expect(value).toBeInstanceOf(Promise);
      expect(await Promise.all(first)).toEqual([1, 1, 1]);
      expect(one.reads).toEqual([[]]);
      expect([price("7", info), price("8", info)]).toEqual([1, 1]);
      await settle();
      expect(one.reads).toEqual([[]]);
    }
  });

  it("are found again by keys that are made from objects, of a field or of a loader", async () => {
    const state = { loads: 0 };
    const { store, reads } = watch(memoryStore());
    const sdl = "input F { ids: [ID!] } type Query { found(filter: F): Int @cached(maxAge: 600) }";
    const resolvers = { Query: { found: () => ++state.loads } };
    const one = memoryWorld(() => store).process(sdl, resolvers);
    const loader = one.cache.loader<{ id: number }, number>({
      name: "N",
      maxAge: 600,
      batch: async (ids) => ids.map(() => ++state.loads),
    });
    const ask = async (id: number) => [
      await dataOf(one.ask(`{ found(filter: { ids: [${id}] }) }`, {})),
      await loader({}).load({ id }),
    ];
    const [first, second] = [await ask(7), await ask(8)];
    await waitForStores(one, 4);
    reads.length = 0;
    expect([await ask(7), await ask(8), state.loads]).toEqual([first, second, 4]);
    expect(reads.flat()).toEqual([]);
  });

  it("are not read with what has to be read in the same tick, which confirms them", async () => {
    const { start } = fleetOn(memoryWorld());
    const one = start();
    await one.warm();
    one.reads.length = 0;
    const [price, info] = [resolverOf(one), infoOf(one)];
    expect(await Promise.all([price("7", info), price("8", info)])).toEqual([1, 1]);
    expect(one.reads.map((keys) => keys.length)).toEqual([1]);
    expect(price("7", info)).toBe(1);
  });

  it("are not served to an execution that began after the latest read was sent", async () => {
    const { source, start } = fleetOn(memoryWorld());
    const [one, other] = [start(), start()];
    await one.warm();
    const [price, earlier] = [resolverOf(one), infoOf(one)];
    expect(await price("7", earlier)).toBe(1);
    source.version = 2;
    await other.cache.invalidateTags(["Product:7"]);
    // The execution began before, and has asked before.
    expect(price("7", earlier)).toBe(1);
    expect(await price("7", infoOf(one))).toBe(2);
  });

  it("are read from the store again when an execution asks for longer than two seconds", async () => {
    const clock = new FakeClock();
    const { start } = fleetOn(memoryWorld(() => memoryStore({ clock })));
    const one = start({ testing: { clock } });
    await one.warm();
    const [price, info] = [resolverOf(one), infoOf(one)];
    await price("7", info);
    await clock.advance(1_999);
    expect(price("7", info)).toBe(1);
    await clock.advance(1);
    const value = price("7", info);
    expect(value).toBeInstanceOf(Promise);
    expect(await value).toBe(1);
  });

  it("are loaded again when the store was emptied", async () => {
    const clock = new FakeClock();
    const server = { store: memoryStore({ clock }) };
    const store = new Proxy(server.store, {
      get: (_target, property) => {
        const value: unknown = Reflect.get(server.store, property, server.store);
        return typeof value === "function" ? value.bind(server.store) : value;
      },
    });
    const { source, start } = fleetOn(memoryWorld(() => store));
    const one = start({ testing: { clock } });
    await one.warm();
    server.store = memoryStore({ clock });
    source.version = 2;
    expect(await one.readAll()).toEqual(three(2));
  });

  it.each(["emptied", "restored from an earlier snapshot"])(
    "do not count when Redis was %s, as after a failover, whatever is invalidated since",
    async (what) => {
      const world = await redisWorld();
      const admin = new Redis(await sharedServer("redisStandalone"));
      onTestFinished(async () => void (await admin.quit()));
      const keysOf = (): Promise<string[]> => admin.keys(`*${world.prefix}*`);
      const { source, start } = fleetOn(world);
      const [one, other] = [start(), start()];
      await other.cache.invalidateTags(["Product:9"]);
      await one.warm();
      const snapshot = await Promise.all(
        (await keysOf()).map(async (key) => [key, await admin.dumpBuffer(key)] as const),
      );
      source.version = 2;
      await other.cache.invalidateTags(["Product:7"]);
      expect(await one.readAll()).toEqual(three(2));
      await waitForStores(one, 6);
      expect(await one.isInMemory()).toBe(true);
      await admin.del(...(await keysOf()));
      if (what !== "emptied") for (const [key, dump] of snapshot) await admin.restore(key, 0, dump as Buffer);
      source.version = 3;
      // It has never known what is lost.
      await start().cache.invalidateTags(["Product:7"]);
      expect(await one.readAll()).toEqual(three(3));
      await waitForStores(one, 9);
      expect(await one.isInMemory()).toBe(true);
      await start().cache.invalidateTags(["Product:7"]);
      source.version = 4;
      expect(await one.readAll()).toEqual(three(4));
    },
  );

  it("that GraphQL refuses are loaded again, which is reported once", async () => {
    const world = memoryWorld();
    const source = { value: null as number | null, loads: 0 };
    const { store, reads } = watch(world.store());
    const plain = "type Query { price(id: ID!): Int @cached(maxAge: 600) }";
    const one = world.process(plain, { Query: { price: () => (source.loads++, source.value) } }, { store });
    const price = resolverOf(one);
    const as = (returnType: GraphQLOutputType): object => {
      const fieldNodes = [{ kind: "Field", name: { kind: "Name", value: "price" } }];
      return infoOf(one, { returnType, fieldNodes, fragments: {} });
    };
    expect(await price("7", as(GraphQLInt))).toBe(null);
    await waitForStores(one);
    expect(await price("7", as(GraphQLInt))).toBe(null);
    source.value = 5;
    reads.length = 0;
    const required = new GraphQLNonNull(GraphQLInt);
    expect(await price("7", as(required))).toBe(5);
    await waitForStores(one, 2);
    expect(one.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(1);
    // The head, then the entry.
    expect(reads.slice(0, 2).map((keys) => keys.length)).toEqual([0, 1]);
    expect([await price("7", as(required)), await price("7", as(GraphQLInt)), source.loads]).toEqual([5, 5, 2]);
    expect(one.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(1);
  });

  it("that their codec cannot decode are loaded again, which is reported once", async () => {
    const state = { isBroken: false };
    const codec = {
      id: "own",
      encode: (value: unknown) => JSON.stringify(value),
      decode: (content: string | Uint8Array) => {
        if (state.isBroken) throw new Error("the codec");
        return JSON.parse(String(content)) as unknown;
      },
    };
    const { source, start } = fleetOn(memoryWorld());
    const one = start({ codec });
    await one.warm();
    const query = "{ dated(id: 7) { price } }";
    expect(await dataOf(one.ask(query, {}))).toEqual({ dated: { price: 1 } });
    source.version = 2;
    state.isBroken = true;
    expect(await dataOf(one.ask(query, {}))).toEqual({ dated: { price: 2 } });
    expect(one.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(1);
  });

  it("are none with `memory: false`, and none with encryption alone: every request reads the store", async () => {
    const encryption = { keys: [{ id: "one", key: Buffer.alloc(32, 7) }] };
    for (const options of [{ memory: false }, { encryption }, { encryption, memory: false }]) {
      const { start } = fleetOn(memoryWorld());
      const one = start(options);
      expect((await one.cache.health()).memory).toBe(null);
      await one.readAll();
      await waitForStores(one, 3);
      for (let nth = 0; nth < 3; nth++) {
        one.reads.length = 0;
        await one.readAll();
        expect(one.reads.flat()).toHaveLength(3);
      }
    }
    const { start } = fleetOn(memoryWorld());
    await start({ encryption, memory: {} }).warm();
  });

  it("take the room of what they replace when everything is invalidated and asked for again", async () => {
    const { start } = fleetOn(memoryWorld());
    const one = start();
    const bytes: (number | undefined)[] = [];
    for (let stores = 3; stores <= 12; stores += 3) {
      await one.readAll();
      await waitForStores(one, stores);
      bytes.push((await one.cache.health()).memory?.bytes);
      await one.cache.clear();
    }
    // The first value tells the names of properties.
    expect(new Set(bytes.slice(1)).size).toBe(1);
  });
});
