import fc from "fast-check";
import { expect, it } from "vitest";
import { copyPlain, jsonCodec } from "../../../src/core/codec/json-codec.js";
import { createPacking } from "../../../src/core/codec/packing.js";

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

const SETTINGS = { compressAboveBytes: undefined, maxValueBytes: 1_000, encryption: undefined, types: undefined };

it("is used for plain JSON of the default codec only, whatever another codec makes of the same text", () => {
  const json = createPacking({ ...SETTINGS, codec: undefined });
  expect(json.copierOf(json.encode({ a: [1] }))).toBe(copyPlain);
  for (const value of [new Date(0), [undefined], new Map(), 1n, { a: -0 }])
    expect(json.copierOf(json.encode(value))).toBeUndefined();
  class Money {}
  const money = { is: (value: unknown) => value instanceof Money, encode: () => 1, decode: () => new Money() };
  const typed = createPacking({ ...SETTINGS, codec: jsonCodec, types: { Money: money } });
  expect(typed.copierOf(typed.encode(["plain"]))).toBe(copyPlain);
  expect(typed.copierOf(typed.encode([new Money()]))).toBeUndefined();
  const reviving = { ...jsonCodec, decode: (content: unknown) => ({ at: new Date(String(content)) }) };
  expect(createPacking({ ...SETTINGS, codec: reviving }).copierOf(" {}")).toBeUndefined();
});
