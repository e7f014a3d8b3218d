import { gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { dataOf, memoryWorld, onEachStore } from "../../support/world.js";

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

onEachStore("an id that the caller changes after load", (world) => {
  /** Loads what `make` returns, lets `change` change it before the batch, and then the same id again. */
  async function start<Id>(options: object, make: () => Id, change: (id: Id) => void) {
    const shared = world();
    const batches: unknown[] = [];
    const loaderOf = () => {
      const { cache, events } = shared.process("type Query { a: Int }", {}, { types } as never);
      const items = cache.loader<Id, string>({
        name: "Item",
        maxAge: 60,
        batch: async (ids) => ids.map((id) => (batches.push(structuredClone(id)), JSON.stringify(id))),
        ...options,
      });
      return { items, events };
    };
    const first = loaderOf();
    const context = {};
    const id = make();
    const value = first.items(context).load(id);
    change(id);
    const got = await value;
    while (!first.events.some(({ name }) => name === "write.finished" || name === "value.refused")) await settle();
    for (let more = 0; more < 20; more++) await settle();
    return { got, again: await loaderOf().items({}).load(make()), batches, first };
  }

  it.each<[string, object, () => never, (id: never) => void]>([
    ["an object", {}, () => ({ id: 1 }) as never, (id: { id: number }) => (id.id = 2)],
    [
      "a nested list",
      {},
      () => ({ of: [{ id: 1 }] }) as never,
      (id: { of: { id: number }[] }) => (id.of = [{ id: 2 }]),
    ],
    ["a list that grows", {}, () => [1] as never, (id: number[]) => id.push(2)],
    [
      "an object with `cacheKeyFn`",
      { cacheKeyFn: ({ id }: { id: number }) => id },
      () => ({ id: 1, more: { at: 1 } }) as never,
      (id: { id: number; more: { at: number } }) => {
        id.id = 2;
        id.more.at = 2;
      },
    ],
  ] as never)("of %s reaches the batch as the key was made of it", async (_what, options, make, change) => {
    const { got, again, batches } = await start(options, make, change);
    expect([got, again]).toEqual([JSON.stringify(make()), JSON.stringify(make())]);
    expect(batches).toEqual([make()]);
  });

  it("that is an instance of a class is not stored under the key that it had", async () => {
    for (const options of [{}, { cacheKeyFn: ({ id }: Ref) => id }]) {
      const { got, again, first } = await start(
        options,
        () => new Ref(1),
        (ref) => (ref.id = 2),
      );
      expect([got, again]).toEqual(['{"id":2}', '{"id":1}']);
      const [refused] = first.events.filter(({ name }) => name === "value.refused");
      expect(refused).toMatchObject({ error: { code: "CACHED_KEY_UNUSABLE" } });
    }
  });

  it("that is an instance of a class and stays as it is is stored", async () => {
    const { batches } = await start(
      {},
      () => new Ref(1),
      () => undefined,
    );
    expect(batches).toHaveLength(1);
  });
});

describe("an id of which nothing changes", () => {
  it("reaches the batch with its types, and the loader of another request by reference to none of them", async () => {
    const { cache } = memoryWorld().process("type Query { a: Int }", {});
    const ids: unknown[] = [];
    const hold = gate();
    const items = cache.loader<unknown, number>({
      name: "Item",
      maxAge: 60,
      batch: async (given) => (ids.push(...given), await hold.passed, given.map(() => 1)),
    });
    const bare = Object.assign(Object.create(null) as object, { id: 1 });
    const given = [
      bare,
      new Date(1),
      Buffer.from("a"),
      new Uint8Array([1]),
      new Map([["a", [1]]]),
      new Set([1]),
      [undefined, null],
    ];
    const loads = items({}).loadMany(given);
    while (ids.length < given.length) await settle();
    hold.open();
    await loads;
    expect(ids).toStrictEqual(given);
    expect(Object.getPrototypeOf(ids[0])).toBe(null);
    expect(Buffer.isBuffer(ids[2])).toBe(true);
  });
});

describe("an argument that another resolver changes before the load", () => {
  it("is no longer that of the key, so the value is not stored", async () => {
    const world = memoryWorld();
    const start = () =>
      world.process(
        `
          input Filter { of: Int }
          type Query { find(filter: Filter): Int @cached(maxAge: 60) changes(filter: Filter): Int }
        `,
        {
          Query: {
            find: (_: unknown, { filter }: { filter: { of: number } }) => filter.of,
            changes: (_: unknown, { filter }: { filter: { of: number } }) => (filter.of += 1),
          },
        },
      );
    const query = (more: string): string => `query ($filter: Filter) { find(filter: $filter) ${more} }`;
    const ask = ({ ask: asked }: ReturnType<typeof start>, more: string) =>
      dataOf(asked(query(more), {}, { filter: { of: 1 } }));
    const first = start();
    expect(await ask(first, "changes(filter: $filter)")).toEqual({ find: 2, changes: 2 });
    for (let more = 0; more < 20; more++) await settle();
    expect(await ask(start(), "")).toEqual({ find: 1 });
    const [refused] = first.events.filter(({ name }) => name === "value.refused");
    expect(refused).toMatchObject({ error: { code: "CACHED_KEY_UNUSABLE" } });
  });
});
