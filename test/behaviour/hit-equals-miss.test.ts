import type { CacheOptions } from "graphql-cached";
import { msgpackrCodec } from "graphql-cached/msgpackr";
import { settle } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { dataOf, onEachStore, type Process, stored } from "../support/world.js";

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

/** Every way in which a value can go to the store and back. */
const WAYS: Readonly<Record<string, CacheOptions>> = {
  "as JSON": {},
  "by msgpackr": { codec: msgpackrCodec() },
  compressed: { compressAboveBytes: 0 },
  encrypted: { encryption },
  "by msgpackr, compressed and encrypted": { codec: msgpackrCodec(), compressAboveBytes: 0, encryption },
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

onEachStore("a hit", (world) => {
  for (const [way, options] of Object.entries(WAYS))
    it(`equals a miss, of every kind of value, ${way}`, async () => {
      const shared = world();
      const [first, second] = [1, 2].map(() =>
        shared.process("type Query { a: Int }", {}, { types, storeTimeoutMs: 5_000, ...options }),
      );
      let loads = 0;
      const ids = VALUES.map((_, id) => id);
      const [load, loadElsewhere] = [first, second].map((process) =>
        (process as Process).cache.loader<number, unknown>({
          name: "Value",
          maxAge: 60,
          batch: async (wanted) => (loads++, wanted.map((id) => VALUES[id])),
        }),
      );
      const missed = await load?.({}).loadMany(ids);
      await stored(first as Process, VALUES.length);
      const hits = await Promise.all([load?.({}).loadMany(ids), loadElsewhere?.({}).loadMany(ids)]);
      expect(missed).toStrictEqual(VALUES);
      for (const hit of hits) expect(hit).toStrictEqual(VALUES);
      expect(loads).toBe(1);
      expect(first?.outcomes()).toEqual({ loaded: VALUES.length, hit: VALUES.length });
      expect(second?.outcomes()).toEqual({ hit: VALUES.length });
    });

  it("of a field has the methods and getters of its class, as its miss has", async () => {
    const typeDefs =
      "type Query { films: [Film] @cached(maxAge: 60) } type Film { title: String price: Money } type Money { text: String }";
    const films = (): unknown => [{ title: "Ran", price: new Money(950) }];
    const process = world().process(typeDefs, { Query: { films } }, { types, storeTimeoutMs: 5_000 });
    const expected = { films: [{ title: "Ran", price: { text: "9.5 €" } }] };
    expect(await dataOf(process.ask("{ films { title price { text } } }"))).toEqual(expected);
    await stored(process);
    expect(await dataOf(process.ask("{ films { title price { text } } }"))).toEqual(expected);
    expect(process.outcomes()).toEqual({ loaded: 1, hit: 1 });
  });
});

onEachStore("a value type whose decode throws", (world) => {
  it("costs a request a load, and never an error", async () => {
    const decode = (): never => {
      throw new Error("no such currency");
    };
    const broken = { Money: { ...types.Money, decode } };
    const typeDefs = "type Query { price: Money @cached(maxAge: 60) } type Money { text: String }";
    const process = world().process(
      typeDefs,
      { Query: { price: () => new Money(950) } },
      { types: broken, storeTimeoutMs: 5_000 },
    );
    for (let round = 0; round < 2; round++) {
      expect(await dataOf(process.ask("{ price { text } }"))).toEqual({ price: { text: "9.5 €" } });
      await stored(process, round + 1);
    }
    expect(process.outcomes()).toEqual({ loaded: 2 });
    expect(process.events.filter(({ name }) => name === "entry.corrupt")).toHaveLength(1);
  });
});

onEachStore("processes that differ in how they write", (world) => {
  const differing: Readonly<Record<string, [CacheOptions, CacheOptions, string]>> = {
    "their codec": [{}, { codec: msgpackrCodec() }, "its value was written by another codec"],
    "their value types": [
      { types },
      {},
      "it contains an instance of a class that is not in the `types` of this process",
    ],
    "whether they encrypt": [{ encryption }, {}, "it is encrypted, but this process has no `encryption` option"],
    "whether they demand it": [{}, { encryption }, "it is not encrypted, but this process has `encryption` enabled"],
    "the size they allow": [{}, { maxValueBytes: 20 }, "its value is larger than `maxValueBytes` in this process"],
  };
  for (const [what, [old, changed, why]] of Object.entries(differing))
    it(`in ${what}, take each other's entries for misses, and say so once in the log`, async () => {
      const shared = world();
      const value = "types" in old ? { price: new Money(7) } : { price: 7, at: "a place far away" };
      let loads = 0;
      const process = (options: CacheOptions) => {
        const said: string[] = [];
        const logger = { info: () => undefined, warn: (message: string) => void said.push(message) };
        const made = shared.process("type Query { a: Int }", {}, {
          logger,
          storeTimeoutMs: 5_000,
          ...options,
        } as CacheOptions<never>);
        const batch = async (ids: readonly number[]): Promise<unknown[]> => (loads++, ids.map(() => value));
        return { ...made, said, load: made.cache.loader<number, unknown>({ name: "Price", maxAge: 60, batch }) };
      };
      const [before, after] = [process(old), process(changed)];
      for (let round = 0; round < 3; round++)
        for (const { load } of [before, after]) {
          expect(await load({}).load(1)).toStrictEqual(value);
          await settle();
        }
      expect(loads).toBeGreaterThanOrEqual(2);
      expect(after.events.some(({ name }) => name === "entry.corrupt")).toBe(true);
      expect(after.said.filter((message) => message.includes(why))).toHaveLength(1);
    });
});
