import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLInt, GraphQLNonNull, type GraphQLOutputType, graphql } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, memoryStore } from "graphql-cached";
import { Redis } from "ioredis";
import { describe, expect, it, onTestFinished } from "vitest";
import { sharedServer } from "../../support/shared-servers.js";
import { KINDS } from "../../support/shop.js";
import { dataOf, memoryWorld, type Process, pair, redisWorld, type World, waitForStores } from "../../support/world.js";
import { all, fleetOn, watch } from "./watched-store.js";

const WORLDS: readonly (readonly [string, () => Promise<World>])[] = [
  ["the memory store", async () => memoryWorld()],
  ["Redis", redisWorld],
];
const invalidate = (cache: Cache) => cache.mutate({ tags: ["Item:7"] }, () => undefined);
const WRITES = { "a write": { what: "tagged", invalidate }, "a write to a result": { what: "found", invalidate } };
const kinds = Object.entries({ ...KINDS, ...WRITES });

describe.each(WORLDS)("Values in memory, on %s", (_, createWorld) => {
  it.each(kinds)(
    "are not served to a request that begins after another process has invalidated %s, without any message",
    async (_name, { what, invalidate }) => {
      const { source, start } = fleetOn(await createWorld());
      const [one, other] = pair(start);
      for (let version = 1; version <= 4; version++) {
        expect(await one.read(what)).toBe(version);
        await one.drain();
        one.reads.length = 0;
        expect(await one.read(what)).toBe(version);
        expect([one.reads.flat(), source.loads]).toEqual([[], version]);
        source.version++;
        await invalidate(other.cache);
      }
    },
  );

  it("are served on if something else was invalidated", async () => {
    const [one, other] = pair(fleetOn(await createWorld()).start);
    await one.warm();
    await other.cache.invalidateTags(["Item:8"]);
    expect(await one.isInMemory()).toBe(true);
  });

  it("are what the process has loaded itself, once the store has confirmed them, and they count from their leases", async () => {
    const { source, start } = fleetOn(await createWorld());
    const [one, other] = pair(start);
    const stored = gate();
    one.hold.stores = stored.passed;
    expect(await one.readAll()).toEqual(all(1));
    expect(await one.isInMemory()).toBe(false);
    source.version = 2;
    await other.cache.invalidateTags(["Item:7"]);
    one.hold.stores = undefined;
    stored.open();
    await one.drain();
    expect(await one.readAll()).toEqual(all(2));
    await one.drain();
    source.version = 3;
    expect([await one.isInMemory(), await one.readAll(), source.loads]).toEqual([true, all(2), 8]);
  });

  it("are no longer served when they were invalidated softly, while the store serves them as stale", async () => {
    const { source, start } = fleetOn(await createWorld());
    const [one, other] = pair(start);
    await one.warm();
    source.version = 2;
    await other.cache.invalidateTags(["Item:7"], { soft: true });
    one.reads.length = 0;
    const before = one.outcomes();
    expect(await one.readAll()).toEqual(all(1));
    expect(one.reads.flat()).toHaveLength(4);
    const { hit, stale = 0 } = one.outcomes();
    expect([hit, stale]).toEqual([before.hit, 4]);
    await one.drain();
    expect(await one.readAll()).toEqual(all(2));
  });

  it("never meet those of another identity, be it of a field or of a loader", async () => {
    const { source, start } = fleetOn(await createWorld());
    const one = start();
    const identities = ["7", "n7", "s7", "a:b", "a", "1:7"];
    const readAll = async (): Promise<unknown[]> => {
      const values: unknown[] = [];
      for (const user of identities) values.push(await one.read("mine", 7, user), await one.read("Own", 7, user));
      await one.drain();
      return values;
    };
    // Each load gets another value.
    const { load } = source;
    source.load = (id) => load.call(source, id, source.version++);
    const expected = identities.flatMap((_user, nth) => [2 * nth + 1, 2 * nth + 2]);
    expect(await readAll()).toEqual(expected);
    one.reads.length = 0;
    for (let nth = 0; nth < 3; nth++) expect(await readAll()).toEqual(expected);
    expect(one.reads.flat()).toEqual([]);
    expect(await one.read("mine")).toBe(13);
  });
});

describe("Values in memory", () => {
  const infoOf = ({ schema }: Process, more: object = {}) => {
    const returnType = schema.getQueryType()?.getFields().number?.type;
    return { schema, variableValues: {}, returnType, fieldNodes: [], ...more };
  };
  const resolverOf = ({ schema }: Process) => {
    const { resolve } = schema.getQueryType()?.getFields().number ?? {};
    return (id: string, info: object) => (resolve as (...args: unknown[]) => unknown)(undefined, { id }, {}, info);
  };
  /** A process that has all in memory, and its field as what an executor calls. */
  async function warmProcess(world = memoryWorld(), options: Record<string, unknown> = {}) {
    const { source, start } = fleetOn(world);
    const one = start(options);
    await one.warm();
    one.reads.length = 0;
    return { source, start, one, number: resolverOf(one), info: infoOf(one) };
  }

  it("come from a promise that reads only the head of the clock first in an execution, and synchronously without a read after that", async () => {
    const { one, number } = await warmProcess();
    await one.read("number", 8);
    await one.drain();
    for (let execution = 0; execution < 3; execution++) {
      one.reads.length = 0;
      const info = infoOf(one);
      const first = [number("7", info), number("7", info), number("8", info)];
      for (const value of first) expect(value).toBeInstanceOf(Promise);
      expect(await Promise.all(first)).toEqual([1, 1, 1]);
      expect([number("7", info), number("8", info)]).toEqual([1, 1]);
      await settle();
      expect(one.reads).toEqual([[]]);
    }
  });

  it("are found again by keys that are made from objects, of a field or of a loader", async () => {
    let loads = 0;
    const { store, reads } = watch(memoryStore());
    const sdl = "input F { ids: [ID!] } type Query { found(filter: F): Int @cached(maxAge: 600) }";
    const one = memoryWorld(() => store).process(sdl, { Query: { found: () => ++loads } });
    const batch = async (ids: readonly { id: number }[]) => ids.map(() => ++loads);
    const loader = one.cache.loader({ name: "N", maxAge: 600, batch });
    const read = async (id: number) => [
      await dataOf(one.ask(`{ found(filter: { ids: [${id}] }) }`, {})),
      await loader({}).load({ id }),
    ];
    const [first, second] = [await read(7), await read(8)];
    await waitForStores(one, 4);
    reads.length = 0;
    expect([await read(7), await read(8), loads]).toEqual([first, second, 4]);
    expect(reads.flat()).toEqual([]);
  });

  it("are not read with what has to be read in the same tick, which confirms them", async () => {
    const { one, number, info } = await warmProcess();
    expect(await Promise.all([number("7", info), number("8", info)])).toEqual([1, 1]);
    expect(one.reads.map((keys) => keys.length)).toEqual([1]);
    expect(number("7", info)).toBe(1);
  });

  it("are not served to an execution that began after the latest read was sent", async () => {
    const { source, start, one, number, info: earlier } = await warmProcess();
    expect(await number("7", earlier)).toBe(1);
    source.version = 2;
    await start().cache.invalidateTags(["Item:7"]);
    // The execution began before, and has asked before.
    expect(number("7", earlier)).toBe(1);
    expect(await number("7", infoOf(one))).toBe(2);
  });

  it("are read from the store again when an execution asks for longer than two seconds", async () => {
    const clock = new FakeClock();
    const world = memoryWorld(() => memoryStore({ clock }));
    const { number, info } = await warmProcess(world, { testing: { clock } });
    await number("7", info);
    await clock.advance(1_999);
    expect(number("7", info)).toBe(1);
    await clock.advance(1);
    const value = number("7", info);
    expect(value).toBeInstanceOf(Promise);
    expect(await value).toBe(1);
  });

  it.each(["emptied", "restored from an earlier snapshot"])(
    "do not count when Redis was %s, as after a failover, whatever is invalidated since",
    async (what) => {
      const world = await redisWorld();
      const admin = new Redis(await sharedServer("redisStandalone"));
      onTestFinished(async () => void (await admin.quit()));
      const keysOf = (): Promise<string[]> => admin.keys(`*${world.prefix}*`);
      const { source, start } = fleetOn(world);
      const [one, other] = pair(start);
      await other.cache.invalidateTags(["Item:9"]);
      await one.warm();
      const dump = async (key: string) => [key, (await admin.dumpBuffer(key)) as Buffer] as const;
      const snapshot = await Promise.all((await keysOf()).map(dump));
      const change = async ({ cache }: Process): Promise<void> => {
        source.version++;
        await cache.invalidateTags(["Item:7"]);
        expect(await one.readAll()).toEqual(all(source.version));
        await one.drain();
        expect(await one.isInMemory()).toBe(true);
      };
      await change(other);
      await admin.del(...(await keysOf()));
      if (what !== "emptied") for (const [key, entry] of snapshot) await admin.restore(key, 0, entry);
      // They have never known what is lost.
      await change(start());
      await change(start());
    },
  );

  it("that GraphQL refuses are loaded again, which is reported once", async () => {
    const world = memoryWorld();
    const source = { value: null as number | null, loads: 0 };
    const { store, reads } = watch(world.store());
    const plain = "type Query { number(id: ID!): Int @cached(maxAge: 600) }";
    const one = world.process(plain, { Query: { number: () => (source.loads++, source.value) } }, { store });
    const number = resolverOf(one);
    const corrupt = () => one.events.filter(({ name }) => name === "entry.corrupt");
    const as = (returnType: GraphQLOutputType): object => {
      const fieldNodes = [{ kind: "Field", name: { kind: "Name", value: "number" } }];
      return infoOf(one, { returnType, fieldNodes, fragments: {} });
    };
    expect(await number("7", as(GraphQLInt))).toBe(null);
    await waitForStores(one);
    expect(await number("7", as(GraphQLInt))).toBe(null);
    source.value = 5;
    reads.length = 0;
    const required = new GraphQLNonNull(GraphQLInt);
    expect(await number("7", as(required))).toBe(5);
    await waitForStores(one, 2);
    expect(corrupt()).toHaveLength(1);
    // The head, then the entry.
    expect(reads.slice(0, 2).map((keys) => keys.length)).toEqual([0, 1]);
    expect([await number("7", as(required)), await number("7", as(GraphQLInt)), source.loads]).toEqual([5, 5, 2]);
    expect(corrupt()).toHaveLength(1);
  });

  it("that their codec cannot decode are loaded again, which is reported once", async () => {
    let isBroken = false;
    const decode = (content: string | Uint8Array) => {
      if (isBroken) throw new Error("the codec");
      return JSON.parse(String(content)) as unknown;
    };
    const codec = { id: "own", encode: (value: unknown) => JSON.stringify(value), decode };
    const { source, one } = await warmProcess(memoryWorld(), { codec });
    expect(await one.read("tagged")).toBe(1);
    await one.drain();
    expect(await one.read("tagged")).toBe(1);
    source.version = 2;
    isBroken = true;
    expect(await one.read("tagged")).toBe(2);
    expect(one.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(1);
  });

  it("are none with `memory: false`, and none with encryption alone: every request reads the store", async () => {
    const encryption = { keys: [{ id: "one", key: Buffer.alloc(32, 7) }] };
    for (const options of [{ memory: false }, { encryption }, { encryption, memory: false }]) {
      const one = fleetOn(memoryWorld()).start(options);
      expect((await one.cache.health()).memory).toBe(null);
      await one.readAll();
      await one.drain();
      for (let nth = 0; nth < 3; nth++) {
        one.reads.length = 0;
        await one.readAll();
        expect(one.reads.flat()).toHaveLength(4);
      }
    }
    await fleetOn(memoryWorld()).start({ encryption, memory: {} }).warm();
  });

  it("take the room of what they replace when everything is invalidated and asked for again", async () => {
    const one = fleetOn(memoryWorld()).start();
    const bytes: unknown[] = [];
    for (let nth = 0; nth < 4; nth++) {
      await one.readAll();
      await one.drain();
      bytes.push((await one.cache.health()).memory?.bytes);
      await one.cache.clear();
    }
    // The first value tells the names of properties.
    expect(new Set(bytes.slice(1)).size).toBe(1);
  });

  it.each(["loader", "wrap", "applyCached"] as const)(
    "take no more room for what cache.%s makes anew for each request, as DataLoaders and schemas per request are",
    async (how) => {
      const { cache } = memoryWorld().process("type Query { a: Int }", {});
      const load = (id: number): number => id;
      const batch = async (ids: readonly number[]) => ids;
      const settings = { name: "Item", maxAge: 60 };
      const item = (_: unknown, { id }: { id: number }): number => id;
      const sdl = [cachedTypeDefs, "type Query { item(id: Int): Int @cached(maxAge: 60) }"];
      const read = {
        loader: () =>
          cache
            .loader({ ...settings, batch })({})
            .load(7),
        wrap: () => cache.wrap({ ...settings, load })(7),
        applyCached: async () => {
          const schema = applyCached(makeExecutableSchema({ typeDefs: sdl, resolvers: { Query: { item } } }), cache);
          return dataOf(graphql({ schema, source: "{ item(id: 7) }", contextValue: {} }));
        },
      }[how];
      const bytes: unknown[] = [];
      for (let nth = 0; nth < 4; nth++) {
        await read();
        await cache.settled();
        bytes.push((await cache.health()).memory?.bytes);
      }
      expect(new Set(bytes.slice(1)).size).toBe(1);
    },
  );
});
