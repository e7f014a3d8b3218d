import { FakeClock } from "@graphql-cached/testing";
import DataLoader from "dataloader";
import { type Cache, type CacheOptions, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { AcquireRequest, Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { describe, expect, it } from "vitest";
import { FakeTimeRedis } from "../../support/fake-time-redis.js";
import { sharedServer } from "../../support/shared-servers.js";
import { afterCaches, dataOf, memoryWorld, redisWorld, type World } from "../../support/world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    price(id: ID!): String @cached(maxAge: 1, tags: ["Item:{$args.id}"])
    plain(ids: [ID!]!): [Item!]!
    cached(ids: [ID!]!): [Item!]! @cached(maxAge: 600)
  }
  type Item { id: ID! price: String @cached(maxAge: 1, tags: ["Item:{$source.id}"]) }
`;

interface Context {
  readonly prices?: DataLoader<string, string>;
}

const priceOf = (id: string): string => `price of ${id}`;
type Read = (ids: readonly string[]) => Promise<readonly unknown[]>;

/** A store of each kind on a clock that the test moves. */
const STORES: Readonly<Record<string, (clock: FakeClock) => Promise<{ world: World; store: () => Store }>>> = {
  "the memory store": async (clock) => {
    const world = memoryWorld(() => memoryStore({ clock }));
    return { world, store: world.store };
  },
  Redis: async (clock) => {
    const client = new Redis(await sharedServer("redisStandalone"));
    afterCaches(() => client.quit());
    return { world: await redisWorld(), store: () => redisStore({ client: new FakeTimeRedis(client, clock), clock }) };
  },
};

/** Returns a store that notes how many leases are requested with each call, and which names are read. */
function watchCalls(store: Store) {
  const leases: number[] = [];
  const reads: (readonly string[])[] = [];
  const beforeRead = { do: undefined as (() => Promise<void>) | undefined };
  const watched = new Proxy(store, {
    get(target, property) {
      const value: unknown = Reflect.get(target, property, target);
      if (typeof value !== "function") return value;
      return (...args: unknown[]): unknown => {
        // The list of items is a field of its own.
        if (property === "acquire") {
          const keys = (args[0] as AcquireRequest[]).filter(({ key }) => !key.includes("Query.cached"));
          if (keys.length > 0) leases.push(keys.length);
        }
        const go = (): unknown => value.apply(target, args) as unknown;
        if (property !== "read") return go();
        reads.push(args[0] as string[]);
        return beforeRead.do?.().then(go) ?? go();
      };
    },
  });
  return { store: watched, leases, reads, beforeRead };
}

/** Returns what starts processes on one store, each with a source that notes the ids of its calls. */
async function fleetOn(on: string, options: object = {}, policy: object = {}) {
  const clock = new FakeClock();
  const { world, store } = await (STORES[on] as (typeof STORES)[string])(clock);
  const start = () => {
    const { store: watched, ...calls } = watchCalls(store());
    const batches: string[][] = [];
    const load = async (ids: readonly string[]): Promise<string[]> => {
      batches.push([...ids]);
      return ids.map(priceOf);
    };
    const items = (_: unknown, { ids }: { ids: string[] }) => ids.map((id) => ({ id }));
    const resolvers = {
      Query: {
        price: (_: unknown, { id }: { id: string }, { prices }: Context) => prices?.load(id),
        plain: items,
        cached: items,
      },
      Item: { price: ({ id }: { id: string }, _: unknown, { prices }: Context) => prices?.load(id) },
    };
    const own = { ...options, store: watched, testing: { clock } } as CacheOptions<never>;
    const process = world.process(typeDefs, resolvers, own);
    const tags = (id: string) => [`Item:${id}`];
    const settings = { maxAge: 1, tags };
    const loader = process.cache.loader<string, string, object>({ name: "Price", ...settings, batch: load, ...policy });
    const wrapped = process.cache.wrap({ name: "p", ...settings, load: async (id: string) => (await load([id]))[0] });
    const ask = async (query: string) => {
      const context: Context = { prices: new DataLoader(load, { cache: false }) };
      return (await dataOf(process.ask(query, context))) as Record<string, unknown>;
    };
    const ofMembers = async (list: string, ids: readonly string[]): Promise<unknown[]> => {
      const data = await ask(`{ ${list}(ids: ${JSON.stringify(ids)}) { price } }`);
      return (data[list] as { price: string }[]).map(({ price }) => price);
    };
    const readers: Readonly<Record<string, Read>> = {
      "ids of a loader": (ids) => loader({}).loadMany([...ids]),
      "calls of a function": (ids) => Promise.all(ids.map((id) => wrapped(id))),
      "fields of the query": async (ids) => {
        const data = await ask(`{ ${ids.map((id) => `${id}: price(id: "${id}")`).join(" ")} }`);
        return ids.map((id) => data[id]);
      },
      "fields of the members of a plain list": (ids) => ofMembers("plain", ids),
      "fields of the members of a cached list": (ids) => ofMembers("cached", ids),
    };
    const forgetCalls = (): void => {
      for (const noted of [batches, calls.leases, calls.reads]) noted.length = 0;
    };
    /** Reads twice, so that what is read is in memory. */
    const warm = async (read: Read, ids: readonly string[]): Promise<void> => {
      for (let nth = 0; nth < 2; nth++) {
        expect(await read(ids)).toEqual(ids.map(priceOf));
        await process.cache.settled();
      }
    };
    return { ...process, ...calls, batches, readers, forgetCalls, warm };
  };
  return { clock, start };
}

/** What each reads, as an invalidation names it. What has a parent is loaded at once if that may be older than the invalidation of another process. */
const ofMember = (id: string): object => ({ coordinate: "Item.price", source: { id } });
const READERS: readonly (readonly [string, (id: string) => object, hasParent?: boolean])[] = [
  ["ids of a loader", (id) => ({ loader: "Price", id })],
  ["calls of a function", (id) => ({ loader: "p", id: [id] })],
  ["fields of the query", (id) => ({ coordinate: "Query.price", args: { id } })],
  ["fields of the members of a plain list", ofMember, true],
  ["fields of the members of a cached list", ofMember, true],
];

/** What becomes of an entry, which is in memory unless that is off. */
const ENTRIES: Readonly<Record<string, (cache: Cache, id: string, target: object) => Promise<unknown>>> = {
  "invalidated by its entry": (cache, _id, target) => cache.invalidate(target as never),
  "invalidated by a tag": (cache, id) => cache.invalidateTags([`Item:${id}`]),
  cleared: (cache) => cache.clear(),
};

describe.each(Object.keys(STORES))("What a tick has to load, on %s", (on) => {
  // Without memory, what is read and requested differs in the process, and a server sees more of the same.
  describe.each(on === "Redis" ? [{}] : [{}, { memory: false }])("with %j", (options) => {
    const cases = READERS.flatMap(([reader, target, hasParent]) => {
      const others = hasParent ? ["this process"] : ["this process", "another process"];
      const invalidated = Object.keys(ENTRIES).flatMap((entry) => others.map((by) => [entry, by] as const));
      const entries = [["absent", "nobody"], ["expired", "nobody"], ...invalidated] as const;
      return entries.map(([entry, by]) => [reader, entry, by, target] as const);
    });

    it.each(cases)(
      "is requested with one call, and loaded in the order asked: %s, of which one is %s, by %s",
      async (reader, entry, by, target) => {
        const { clock, start } = await fleetOn(on, options);
        const [one, other] = [start(), start()];
        const read = one.readers[reader] as Read;
        if (entry !== "absent") await one.warm(read, ["b"]);
        expect(one.batches).toHaveLength(entry === "absent" ? 0 : 1);
        if (entry === "expired") await clock.advance(1_500);
        await ENTRIES[entry]?.((by === "this process" ? one : other).cache, "b", target("b"));
        one.forgetCalls();
        const ids = ["a", "b", "c"];
        expect(await read(ids)).toEqual(ids.map(priceOf));
        await one.cache.settled();
        expect(one.leases).toEqual([3]);
        expect(one.batches).toEqual(reader === "calls of a function" ? ids.map((id) => [id]) : [ids]);
      },
    );

    it("is requested with the refresh of what is served as a stale value, which is loaded for itself: it has expired, or was invalidated softly by any process", async () => {
      const { clock, start } = await fleetOn(on, options, { staleWhileRevalidate: 600 });
      const [one, other] = [start(), start()];
      const read = one.readers["ids of a loader"] as Read;
      for (const [nth, makeStale] of [
        () => clock.advance(1_500),
        () => one.cache.invalidateTags(["Item:b"], { soft: true }),
        () => other.cache.invalidateTags(["Item:b"], { soft: true }),
      ].entries()) {
        await one.warm(read, ["b"]);
        await makeStale();
        one.forgetCalls();
        const ids = [`a${nth}`, "b", `c${nth}`];
        expect(await read(ids)).toEqual(ids.map(priceOf));
        await one.cache.settled();
        // In the asynchronous context of no request: see private-data.md.
        expect([one.leases, new Set(one.batches.map(String))]).toEqual([[3], new Set([`a${nth},c${nth}`, "b"])]);
      }
    });
  });

  it.each(["this process", "another process"])(
    "of a page is requested with one call, and what is in memory waits for no further read: invalidated by %s",
    async (by) => {
      const { start } = await fleetOn(on, {}, { maxAge: 60 });
      const [one, other] = [start(), start()];
      const page = Array.from({ length: 20 }, (_, nth) => `${nth}`);
      const invalidated = ["0", "7", "12"];
      const known = page.filter((id) => !["2", "11", "19"].includes(id));
      const read = one.readers["ids of a loader"] as Read;
      await one.warm(read, known);
      await (by === "this process" ? one : other).cache.invalidateTags(invalidated.map((id) => `Item:${id}`));
      one.forgetCalls();
      const values = read(page);
      // Of another request.
      await read(known.filter((id) => !invalidated.includes(id)));
      expect(one.reads).toHaveLength(1);
      expect(await values).toEqual(page.map(priceOf));
      await one.cache.settled();
      expect([one.leases, one.batches]).toEqual([[6], [["0", "2", "7", "11", "12", "19"]]]);
    },
  );
});

it("A miss waits for one further read at most, whatever others invalidate meanwhile", async () => {
  const { start } = await fleetOn("the memory store", {}, { maxAge: 60 });
  const [one, other] = [start(), start()];
  const read = one.readers["ids of a loader"] as Read;
  const known = ["0", "1", "2", "3", "4"];
  await one.warm(read, [...known, "hit"]);
  one.forgetCalls();
  // Each read of the store shows that another value was invalidated which its tick has asked for.
  let nth = 0;
  one.beforeRead.do = () => other.cache.invalidateTags([`Item:${nth++}`]);
  const miss = read(["miss"]);
  const values: Promise<unknown>[] = [];
  for (const id of known) {
    values.push(read([id]));
    await read(["hit"]);
  }
  expect(await miss).toEqual([priceOf("miss")]);
  expect(await Promise.all(values)).toEqual(known.map((id) => [priceOf(id)]));
  const [name] = one.reads[0] as string[];
  expect(one.reads.filter((names) => names.includes(name as string))).toHaveLength(2);
});
