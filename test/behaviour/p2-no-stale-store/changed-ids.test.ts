import { settle } from "@graphql-cached/testing";
import { describe, expect, it, vi } from "vitest";
import { dataOf, memoryWorld, type Process, pair, type World } from "../../support/world.js";

class Ref {
  id: number;

  constructor(id: number) {
    this.id = id;
  }
}
const types = {
  Ref: {
    is: (value: unknown) => value instanceof Ref,
    encode: ({ id }: Ref) => id,
    decode: (id: number) => new Ref(id),
    keyOf: ({ id }: Ref) => String(id),
  },
};
const refusalsOf = ({ events }: Process) =>
  events.flatMap((event) => (event.name === "value.refused" ? [event.error.code] : []));

/** Starts a process with a loader whose value is its id as JSON. */
function start(world: World, settings: object, batches: string[]) {
  const process = world.bare({ types, storage: { storeTimeoutMs: 5_000 } } as never);
  const toText = (id: unknown): string => batches[batches.push(JSON.stringify(id)) - 1] as string;
  const batch = async (ids: readonly never[]) => ids.map(toText);
  return { ...process, items: process.cache.loader<never, string>({ name: "Item", maxAge: 60, batch, ...settings }) };
}

describe("an id that the caller changes after load", () => {
  type Case = [
    what: string,
    make: () => object,
    change: (id: never) => unknown,
    isRefused?: boolean,
    settings?: object,
  ];
  const keyFn = { cacheKeyFn: ({ id }: Ref) => id };
  const changeId = (id: Ref) => (id.id = 2);
  const clear = (id: { of: object[] }) => (id.of = [{}]);
  it.each<Case>([
    ["an object reaches the batch as it was", () => ({ id: 1 }), changeId],
    ["a nested list reaches the batch as it was", () => ({ of: [{ id: 1 }] }), clear],
    ["a list that grows reaches the batch as it was", () => [1], (id: number[]) => id.push(2)],
    [
      "an object with `cacheKeyFn` reaches the batch as it was",
      () => ({ id: 1, more: { at: 1 } }),
      (id: { id: number; more: { at: number } }) => (id.id = id.more.at = 2),
      false,
      keyFn,
    ],
    ["an instance of a class is not stored under the key that it had", () => new Ref(1), changeId, true],
    ["an instance with `cacheKeyFn` is not stored under it either", () => new Ref(1), changeId, true, keyFn],
    ["an instance that stays as it is is stored", () => new Ref(1), () => undefined],
  ])("%s", async (_, make, change, isRefused = false, settings = {}) => {
    const shared = memoryWorld();
    const batches: string[] = [];
    const first = start(shared, settings, batches);
    const id = make() as never;
    const value = first.items({}).load(id);
    change(id);
    const [changed, unchanged] = [JSON.stringify(id), JSON.stringify(make())];
    expect(await value).toBe(isRefused ? changed : unchanged);
    await first.cache.settled();
    const { items } = start(shared, settings, batches);
    expect(await items({}).load(make() as never)).toBe(unchanged);
    expect(batches).toEqual(isRefused ? [changed, unchanged] : [unchanged]);
    expect(refusalsOf(first)).toEqual(isRefused ? ["CACHED_KEY_UNUSABLE"] : []);
  });
});

it("an id of which nothing changes reaches the batch with its types, and the loader of another request by reference to none of them", async () => {
  const batch = vi.fn(async (ids: readonly unknown[]) => ids.map(() => 1));
  const items = memoryWorld().bare().cache.loader<unknown, number>({ name: "Item", maxAge: 60, batch });
  const bare = Object.assign(Object.create(null) as object, { id: 1 });
  const binary = [Buffer.from("a"), new Uint8Array([1])];
  const given = [bare, new Date(1), ...binary, new Map([["a", [1]]]), new Set([1]), [undefined, null]];
  await items({}).loadMany(given);
  const ids = batch.mock.calls.flatMap(([some]) => some);
  expect(ids).toStrictEqual(given);
  expect(Object.getPrototypeOf(ids[0])).toBe(null);
  expect(Buffer.isBuffer(ids[2])).toBe(true);
});

it("an argument that another resolver changes before the load is no longer that of the key, so the value is not stored", async () => {
  const world = memoryWorld();
  const typeDefs = `
    input Filter { of: Int }
    type Query { find(filter: Filter): Int @cached(maxAge: 60) changes(filter: Filter): Int }
  `;
  type Args = { filter: { of: number } };
  const Query = {
    find: (_: unknown, { filter }: Args) => filter.of,
    changes: (_: unknown, { filter }: Args) => (filter.of += 1),
  };
  const [first, second] = pair(() => world.process(typeDefs, { Query }));
  const read = ({ ask }: Process, more = ""): Promise<unknown> =>
    dataOf(ask(`query ($filter: Filter) { find(filter: $filter) ${more} }`, {}, { filter: { of: 1 } }));
  expect(await read(first, "changes(filter: $filter)")).toEqual({ find: 2, changes: 2 });
  await first.cache.settled();
  expect(await read(second)).toEqual({ find: 1 });
  expect(refusalsOf(first)).toEqual(["CACHED_KEY_UNUSABLE"]);
});

it.each<[what: string, settings: string, more: object]>([
  ["by the default key", "", {}],
  ["by a property of it", ', key: ["$source.slug"]', {}],
  ["by an object in it", ', key: ["$source.of.id"]', { of: { id: 1 } }],
  ["as a whole", ', key: ["$source"]', {}],
])(
  "a parent that another field changes before the load is no longer that of the key %s, so the value is not stored",
  async (_, settings, more) => {
    const world = memoryWorld();
    const typeDefs = `
      type Query { item: Item }
      type Item { id: ID name: String @cached(maxAge: 60${settings}) moves: Boolean }
    `;
    type Item = { id: number; slug: string; of?: { id: number } };
    const resolvers = {
      Query: { item: () => structuredClone({ id: 1, slug: "one", ...more }) },
      Item: {
        name: ({ slug }: Item) => `item ${slug}`,
        moves: (item: Item) => {
          Object.assign(item, { id: 2, slug: "two" });
          if (item.of !== undefined) item.of.id = 2;
          return true;
        },
      },
    };
    const [first, second] = pair(() => world.process(typeDefs, resolvers));
    expect(await dataOf(first.ask("{ item { name moves } }"))).toEqual({ item: { name: "item two", moves: true } });
    await first.cache.settled();
    expect(await dataOf(second.ask("{ item { name } }"))).toEqual({ item: { name: "item one" } });
    expect(refusalsOf(first)).toEqual(["CACHED_KEY_UNUSABLE"]);
  },
);

it("a parent of which a field changes what is not in the key keeps its key, so that the value is stored", async () => {
  const { ask, outcomes } = memoryWorld().process(
    "type Query { item: Item } type Item { id: ID name: String @cached(maxAge: 60) moves: Boolean }",
    {
      Query: { item: () => ({ id: 1 }) },
      Item: { name: () => "one", moves: (item: object) => Object.assign(item, { id: "1", seen: true }) !== undefined },
    },
  );
  for (let nth = 0; nth < 2; nth++) {
    await ask("{ item { name moves } }");
    await settle();
  }
  expect(outcomes()).toEqual({ loaded: 1, hit: 1 });
});
