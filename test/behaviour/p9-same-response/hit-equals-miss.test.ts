import { settle } from "@graphql-cached/testing";
import type { CacheOptions } from "graphql-cached";
import { expect, it } from "vitest";
import { msgpackrCodec } from "../../support/msgpackr-codec.js";
import { dataOf, onEachStore, type Process, waitForStores } from "../../support/world.js";

class Money {
  constructor(readonly cents: number) {}
  get text(): string {
    return `${this.cents / 100} €`;
  }
}

const types = {
  Money: {
    is: (value: object) => value instanceof Money,
    encode: ({ cents }: Money) => cents,
    decode: (cents: number) => new Money(cents),
  },
};
const encryption = { keys: [{ id: "2026-11", key: Buffer.alloc(32, 7) }] };

/** Every combination of codec, compression and encryption that a value can pass through. */
const FORMATS: Readonly<Record<string, CacheOptions>> = {
  "with JSON": {},
  "with msgpackr": { codec: msgpackrCodec() },
  "with compression": { storage: { compressAboveBytes: 0 } },
  "with encryption": { encryption },
  "with msgpackr, compression and encryption": {
    codec: msgpackrCodec(),
    storage: { compressAboveBytes: 0 },
    encryption,
  },
};

const VALUES: readonly unknown[] = [
  null,
  false,
  0,
  -0,
  "",
  Number.NaN,
  2n ** 70n,
  "é\ud83d\ude00",
  new Date(7),
  Buffer.from([0, 255]),
  [],
  { a: undefined, b: [new Map([[{ c: 1 }, new Set([1n])]])] },
  JSON.parse('{"__proto__": 1, "$gc": ["d", "1"]}'),
  new Money(150),
  { prices: [new Money(1), { sale: new Money(2) }], by: new Map([["a", new Money(3)]]) },
  Array.from({ length: 1_000 }, (_, id) => ({ id, title: `Film ${id}`, price: new Money(id) })),
];

onEachStore("cache hits", (world) => {
  for (const [format, options] of Object.entries(FORMATS))
    it(`returns the same value on a hit as on a miss for every kind of value, ${format}`, async () => {
      const shared = world();
      const [first, second] = [1, 2].map(() =>
        shared.process("type Query { a: Int }", {}, { types, storage: { storeTimeoutMs: 5_000 }, ...options }),
      );
      let loads = 0;
      const ids = VALUES.map((_, id) => id);
      const [load, loadElsewhere] = [first, second].map((process) =>
        (process as Process).cache.loader<number, unknown>({
          name: "Value",
          maxAge: 60,
          batch: async (requested) => (loads++, requested.map((id) => VALUES[id])),
        }),
      );
      const missed = await load?.({}).loadMany(ids);
      await waitForStores(first as Process, VALUES.length);
      const hits = await Promise.all([load?.({}).loadMany(ids), loadElsewhere?.({}).loadMany(ids)]);
      expect(missed).toStrictEqual(VALUES);
      for (const hit of hits) expect(hit).toStrictEqual(VALUES);
      expect(loads).toBe(1);
      expect(first?.outcomes()).toEqual({ loaded: VALUES.length, hit: VALUES.length });
      expect(second?.outcomes()).toEqual({ hit: VALUES.length });
    });

  it("restores class instances with their methods and getters for child resolvers", async () => {
    const typeDefs =
      "type Query { films: [Film] @cached(maxAge: 60) } type Film { title: String price: Money } type Money { text: String }";
    const films = (): unknown => [{ title: "Ran", price: new Money(950) }];
    const process = world().process(typeDefs, { Query: { films } }, { types, storage: { storeTimeoutMs: 5_000 } });
    const expected = { films: [{ title: "Ran", price: { text: "9.5 €" } }] };
    expect(await dataOf(process.ask("{ films { title price { text } } }"))).toEqual(expected);
    await waitForStores(process);
    expect(await dataOf(process.ask("{ films { title price { text } } }"))).toEqual(expected);
    expect(process.outcomes()).toEqual({ loaded: 1, hit: 1 });
  });
});

onEachStore("value types", (world) => {
  it("loads the value again, without an error, when a value type's decode throws", async () => {
    const decode = (): never => {
      throw new Error("no such currency");
    };
    const broken = { Money: { ...types.Money, decode } };
    const typeDefs = "type Query { price: Money @cached(maxAge: 60) } type Money { text: String }";
    const process = world().process(
      typeDefs,
      { Query: { price: () => new Money(950) } },
      { types: broken, storage: { storeTimeoutMs: 5_000 } },
    );
    for (let round = 0; round < 2; round++) {
      expect(await dataOf(process.ask("{ price { text } }"))).toEqual({ price: { text: "9.5 €" } });
      await waitForStores(process, round + 1);
    }
    expect(process.outcomes()).toEqual({ loaded: 2 });
    expect(process.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(1);
  });
});

onEachStore("processes with different formats", (world) => {
  const VALUE = { price: 7, at: "a place far away" };

  /** Reads one value in turn in two processes with different settings. Returns the processes and the number of loads. */
  async function readInTurn(value: unknown, settings: readonly CacheOptions[]) {
    const shared = world();
    let loads = 0;
    const processes = settings.map((options) => {
      const made = shared.process("type Query { a: Int }", {}, {
        storage: { storeTimeoutMs: 5_000 },
        ...options,
      } as CacheOptions<never>);
      const batch = async (ids: readonly number[]): Promise<unknown[]> => (loads++, ids.map(() => value));
      return { ...made, load: made.cache.loader<number, unknown>({ name: "Price", maxAge: 60, batch }) };
    });
    for (let round = 0; round < 3; round++)
      for (const { load } of processes) {
        expect(await load({}).load(1)).toStrictEqual(value);
        await settle();
      }
    return { processes, loads };
  }

  const incompatible: Readonly<Record<string, [CacheOptions, CacheOptions]>> = {
    codec: [{}, { codec: msgpackrCodec() }],
    "value types": [{ types }, {}],
    encryption: [{ encryption }, {}],
    version: [{}, { version: "2" }],
  };
  it.each(Object.entries(incompatible))(
    "keep their entries side by side and load each key once if they differ in %s",
    async (setting, settings) => {
      const value = setting === "value types" ? new Money(7) : VALUE;
      // Without the type, instances of the class are not stored.
      const expectedLoads = setting === "value types" ? 4 : 2;
      const { processes, loads } = await readInTurn(value, settings);
      expect(loads).toBe(expectedLoads);
      for (const { events } of processes) expect(events.map(({ name }) => name)).not.toContain("entry.corrupt");
    },
  );

  const unreadable: Readonly<Record<string, [CacheOptions, CacheOptions, string]>> = {
    "the keys of encryption": [
      { encryption },
      { encryption: { keys: [{ id: "other", key: Buffer.alloc(32, 9) }] } },
      "it is encrypted with a key that this process does not have",
    ],
    maxValueBytes: [
      {},
      { storage: { maxValueBytes: 20 } },
      "its value is larger than `storage.maxValueBytes` in this process",
    ],
  };
  it.each(Object.entries(unreadable))(
    "treat each other's entries as misses and log it once if they differ in %s",
    async (_setting, [old, changed, reason]) => {
      const { processes, loads } = await readInTurn(VALUE, [old, changed]);
      const [, after] = processes;
      expect(loads).toBeGreaterThanOrEqual(2);
      expect(after?.events.some(({ name }) => name === "entry.corrupt")).toBe(true);
      expect(after?.warnings.filter((message) => message.includes(reason))).toHaveLength(1);
    },
  );
});
