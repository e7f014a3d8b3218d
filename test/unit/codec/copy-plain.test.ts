import fc from "fast-check";
import { expect, it } from "vitest";
import { copyPlain, jsonCodec } from "../../../src/core/codec/json-codec.js";
import { createPacking } from "../../../src/core/codec/packing.js";

const SETTINGS = { compressAboveBytes: undefined, maxValueBytes: 1_000, encryption: undefined, types: undefined };

/** Every object and array inside a value. */
function objectsIn(value: unknown): object[] {
  if (typeof value !== "object" || value === null) return [];
  return [value, ...Object.values(value).flatMap(objectsIn)];
}

it("makes the same value as parsing the text again, down to the order of fields, and shares no object with it", () => {
  fc.assert(
    fc.property(fc.json({ maxDepth: 5 }), (text) => {
      const value: unknown = JSON.parse(text);
      const copy = copyPlain(value);
      expect(JSON.stringify(copy)).toBe(JSON.stringify(value));
      expect(copy).toStrictEqual(JSON.parse(text));
      const originals = new Set(objectsIn(value));
      expect(objectsIn(copy).filter((object) => originals.has(object))).toEqual([]);
    }),
    { numRuns: 300 },
  );
});

it("makes the same value as decoding again of whatever it is used for, and shares no object with it", () => {
  const leaf = fc.oneof(
    fc.constantFrom(undefined, Number.NaN, -0, 1n, null, '{"$gc":["u",0]}', { $gc: ["u", 0] }),
    fc.constantFrom(new Date(0), new Map([[{}, undefined]]), Buffer.from("a")),
    fc.string(),
  );
  const values = fc.object({ key: fc.constantFrom("a", "b", "$gc", "__proto__"), values: [leaf], maxDepth: 4 });
  const { encode, decode, copierOf } = createPacking({ ...SETTINGS, codec: undefined });
  let copies = 0;
  fc.assert(
    fc.property(values, (value) => {
      const content = encode(value);
      const copier = copierOf(content);
      if (copier === undefined) return;
      copies++;
      const decoded = decode(content);
      const copy = copier(decoded);
      expect(copy).toStrictEqual(decode(content));
      const originals = new Set(objectsIn(decoded));
      expect(objectsIn(copy).filter((object) => originals.has(object))).toEqual([]);
    }),
    { numRuns: 300 },
  );
  expect(copies).toBeGreaterThan(0);
});

it("copies a field called __proto__ as the ordinary field that JSON.parse makes of it", () => {
  const text = '{"a":{"__proto__":{"b":[1]}},"__proto__":{"polluted":true}}';
  const value = JSON.parse(text) as { a: { __proto__: object } };
  const copy = copyPlain(value) as typeof value;
  expect(JSON.stringify(copy)).toBe(text);
  expect(Object.getPrototypeOf(copy)).toBe(Object.prototype);
  expect((copy as { polluted?: boolean }).polluted).toBeUndefined();
  expect(Object.getOwnPropertyDescriptor(copy.a, "__proto__")?.value).not.toBe(
    Object.getOwnPropertyDescriptor(value.a, "__proto__")?.value,
  );
});

it("copies nothing that a program has added to the prototype of all objects", () => {
  const value: unknown = JSON.parse('{"a":{"b":1}}');
  let copy: unknown;
  Object.defineProperty(Object.prototype, "added", {
    value: [1],
    enumerable: true,
    configurable: true,
    writable: true,
  });
  try {
    copy = copyPlain(value);
  } finally {
    delete (Object.prototype as { added?: object }).added;
  }
  expect(copy).toStrictEqual({ a: { b: 1 } });
});

it("is used for objects, arrays and what cannot be changed, of the default codec only, whatever another codec makes of the same text", () => {
  const json = createPacking({ ...SETTINGS, codec: undefined });
  for (const value of [{ a: [1] }, [undefined], { a: { b: undefined, c: -0 } }, 1n, ['{"$gc":["d","0"]}']])
    expect(json.copierOf(json.encode(value))).toBe(copyPlain);
  const bare: unknown = Object.create(null);
  for (const value of [
    new Date(0),
    new Map(),
    [undefined, new Set()],
    { a: bare },
    { $gc: 1 },
    { [Symbol.for("a")]: 1 },
  ])
    expect(json.copierOf(json.encode(value))).toBeUndefined();
  class Money {}
  const money = { is: (value: unknown) => value instanceof Money, encode: () => 1, decode: () => new Money() };
  const typed = createPacking({ ...SETTINGS, codec: jsonCodec, types: { Money: money } });
  expect(typed.copierOf(typed.encode(["plain"]))).toBe(copyPlain);
  expect(typed.copierOf(typed.encode([new Money()]))).toBeUndefined();
  const reviving = { ...jsonCodec, decode: (content: unknown) => ({ at: new Date(String(content)) }) };
  expect(createPacking({ ...SETTINGS, codec: reviving }).copierOf(" {}")).toBeUndefined();
});
