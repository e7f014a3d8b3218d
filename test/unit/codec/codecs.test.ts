import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Codec } from "../../../src/core/codec/codec.js";
import { jsonCodec } from "../../../src/core/codec/json-codec.js";
import type { ValueTypes } from "../../../src/core/codec/value-type.js";
import { msgpackrCodec } from "../../support/msgpackr-codec.js";

/** Created anew for each call, since one process reads what another one wrote. */
const CODECS: Readonly<Record<string, () => Codec>> = { JSON: () => jsonCodec, msgpackr: () => msgpackrCodec() };

/** Includes invalid text: lone surrogates. */
const text = fc.oneof(
  fc.string({ unit: "binary" }),
  fc.array(fc.integer({ min: 0, max: 0xffff })).map((units) => String.fromCharCode(...units)),
);
const any = (options: fc.ObjectConstraints): fc.Arbitrary<unknown> =>
  fc.anything({ withBigInt: true, withDate: true, withMap: true, withSet: true, key: text, ...options });

const identity = (a: unknown): unknown => a;
/** The value that `run` returns, or the message of what it throws. */
function outcomeOf(run: () => unknown): unknown {
  try {
    return { value: run() };
  } catch (error) {
    return (error as Error).message;
  }
}

class Money {
  constructor(
    readonly cents: bigint,
    readonly on: Date,
  ) {}
}
class Basket {
  constructor(readonly prices: readonly Money[]) {}
}
const types = {
  Money: {
    is: (value: object) => value instanceof Money,
    encode: ({ cents, on }: Money) => ({ cents, on }),
    decode: ({ cents, on }: { cents: bigint; on: Date }) => new Money(cents, on),
  },
  Basket: {
    is: (value: object) => value instanceof Basket,
    encode: ({ prices }: Basket) => prices,
    decode: (prices: Money[]) => new Basket(prices),
  },
};

for (const [name, make] of Object.entries(CODECS)) {
  const roundTrip = (value: unknown): unknown => make().decode(make().encode(value));
  const typed = (own: ValueTypes): Codec => make().withTypes?.(own) ?? make();

  describe(`the ${name} codec`, () => {
    it("restores values exactly, including types that the format lacks", () => {
      const values = [
        null,
        undefined,
        false,
        0,
        -0,
        "",
        "\ud800",
        Number.NaN,
        Number.POSITIVE_INFINITY,
        Number.MAX_SAFE_INTEGER,
        2 ** 60,
        1e308,
        0.1,
        2n ** 70n,
        -(2n ** 64n),
        new Date(7),
        new Date(Number.NaN),
        new Date(-1.5e14),
        [undefined, 1],
        { a: undefined },
        new Map<unknown, unknown>([
          [1, new Date(2)],
          [{ a: 1 }, new Set([1n, { b: [Buffer.from("c")] }])],
        ]),
        Buffer.from("ab"),
        [new Uint8Array([1, 2]), new Uint8Array(0)],
        { $gc: ["d", "1"] },
        { $gc: 1, a: { $gc: { $gc: ["n", "1"] } } },
        { constructor: "Map", toJSON: 1, "\udc00": 3, "": 4, 7: 5 },
        JSON.parse('{"__proto__":{"polluted":true}}'),
        Array.from({ length: 300 }, (_, index) => ({ [`a${index}`]: index, [`b${index % 7}`]: [{ id: index }] })),
      ];
      for (const value of values) expect(roundTrip(value)).toStrictEqual(value);
      expect(Buffer.isBuffer(roundTrip(Buffer.from("x")))).toBe(true);
      expect(Object.hasOwn(roundTrip(JSON.parse('{"__proto__":1}')) as object, "__proto__")).toBe(true);
      expect(Object.hasOwn(Object.prototype, "polluted")).toBe(false);
    });

    it("restores any data", () => {
      const data = fc.oneof(
        any({ values: [text, fc.boolean(), fc.double(), fc.integer(), fc.constant(null)] }),
        any({}),
      );
      fc.assert(
        fc.property(data, (value) => {
          expect(roundTrip(value)).toStrictEqual(value);
        }),
        { numRuns: 500 },
      );
    });

    it("does not modify the value that it encodes", () => {
      const value = Object.freeze({ list: Object.freeze([1, new Date(1), { a: undefined }]) });
      make().encode(value);
      expect(value).toStrictEqual({ list: [1, new Date(1), { a: undefined }] });
    });

    it("gives every reader its own objects and bytes", () => {
      const written = make().encode({ a: [Buffer.from("abc"), new Uint8Array([1])] });
      const [first, second] = [make().decode(written), make().decode(written)] as { a: [Buffer, Uint8Array] }[];
      first?.a[0].fill(0);
      first?.a[1].fill(0);
      expect(second).toStrictEqual({ a: [Buffer.from("abc"), new Uint8Array([1])] });
      expect(make().decode(written)).toStrictEqual(second);
    });

    it("stops at bytes of which the value would have more than the limit, before they are written", () => {
      for (const bytes of [new Uint8Array(1_000), Buffer.alloc(1_000)]) {
        expect(() => make().encode({ bytes }, 999)).toThrow("the content has more than 999 bytes");
        expect(make().decode(make().encode({ bytes }, 2_000))).toStrictEqual({ bytes });
      }
    });

    it("rejects values that it could not restore and names their path", () => {
      class Film {}
      class Films extends Array<unknown> {}
      for (const [value, message] of [
        [{ a: [new Film()] }, "an instance of Film at `result.a[0]`"],
        [{ a: [1, 2, { b: 1, c: () => 1 }] }, "a function at `result.a[2].c`"],
        [[Promise.resolve()], "an instance of Promise at `result[0]`"],
        [Symbol("s"), "a symbol at `result`"],
        [new Map([[1, new Film()]]), "an instance of Film at `result.values()`"],
        [new Films(), "an instance of Films at `result`"],
        [{ a: new Int16Array(1) }, "an instance of Int16Array at `result.a`"],
      ] as const)
        expect(() => make().encode(value)).toThrow(message);
      const cycle: unknown[] = [];
      cycle.push(cycle);
      expect(() => make().encode(cycle)).toThrow("more than 200 levels of nesting, or a cycle,");
    });

    it("stores instances of value types anywhere in a value, including nested ones", () => {
      const codec = typed(types);
      const price = new Money(2n ** 65n, new Date(3));
      for (const value of [
        price,
        [price],
        { a: { b: price } },
        new Map([[price, new Set([price])]]),
        new Basket([price]),
      ])
        expect(codec.decode(codec.encode(value))).toStrictEqual(value);
      expect(() => codec.encode([new URL("http://a")])).toThrow("an instance of URL at `result[0]`");
      const invalid = { Money: { ...types.Money, encode: () => ({ f: identity }) } };
      expect(() => typed(invalid).encode({ price })).toThrow("a function at `result.price.encode().f`");
    });

    it("does not read instances of a value type that it does not have", () => {
      const written = typed(types).encode([new Money(1n, new Date(1))]);
      const message = "it contains an instance of a class that is not in the `types` of this process";
      expect(() => make().decode(written)).toThrow(message);
      expect(() => typed({ constructor: types.Basket }).decode(written)).toThrow(message);
    });

    it("throws on truncated content and survives arbitrary bytes", () => {
      const whole = Buffer.from(
        make().encode([
          { a: 1, b: [new Date(1)] },
          { a: 2, b: [Buffer.from("c")] },
        ]),
      );
      const content = (bytes: Buffer): string | Uint8Array => (name === "JSON" ? bytes.toString("utf8") : bytes);
      for (let length = 0; length < whole.length; length++)
        expect(() => make().decode(content(whole.subarray(0, length)))).toThrow();
      const bytes = fc.uint8Array({ maxLength: 64 });
      const flips = fc.tuple(fc.nat(whole.length - 1), fc.nat(255));
      fc.assert(
        fc.property(bytes, flips, (garbage, [at, byte]) => {
          outcomeOf(() => make().decode(content(Buffer.from(garbage))));
          const flipped = Buffer.from(whole);
          flipped[at] = byte;
          outcomeOf(() => make().decode(content(flipped)));
          expect(make().decode(make().encode({ a: 1 }))).toEqual({ a: 1 });
        }),
      );
    });
  });
}

describe("the JSON and msgpackr codecs", () => {
  it("store the same values and reject the same values with the same messages", () => {
    const data = any({ withBoxedValues: true, withTypedArray: true, withSparseArray: true, withNullPrototype: true });
    const withFunctions = fc.oneof(
      data,
      fc.tuple(data, fc.constant(identity)),
      fc.record({ a: data, b: fc.constant(/x/) }),
    );
    fc.assert(
      fc.property(withFunctions, (value) => {
        const [json, msgpackr] = Object.values(CODECS).map((make) =>
          outcomeOf(() => make().decode(make().encode(value))),
        );
        expect(msgpackr).toStrictEqual(json);
      }),
      { numRuns: 500 },
    );
  });
});
