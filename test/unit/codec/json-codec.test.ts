import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { jsonCodec } from "../../../src/codec/json-codec.js";

const around = (value: unknown): unknown => jsonCodec.decode(jsonCodec.encode(value));

describe("the JSON codec", () => {
  it("gives back what it was given, also what JSON does not know", () => {
    const values = [
      null,
      undefined,
      false,
      0,
      -0,
      "",
      Number.NaN,
      Number.POSITIVE_INFINITY,
      2n ** 70n,
      new Date(7),
      [undefined, 1],
      { a: undefined },
      new Map<unknown, unknown>([
        [1, new Date(2)],
        ["a", new Set([1n])],
      ]),
      Buffer.from("ab"),
      new Uint8Array([1, 2]),
      { $gc: ["d", "1"] },
      JSON.parse('{"__proto__":{"polluted":true}}'),
    ];
    for (const value of values) expect(around(value)).toStrictEqual(value);
    expect(Buffer.isBuffer(around(Buffer.from("x")))).toBe(true);
    expect(Object.hasOwn(around(JSON.parse('{"__proto__":1}')) as object, "__proto__")).toBe(true);
  });

  it("gives back any data", () => {
    const data = fc.anything({
      withBigInt: true,
      withDate: true,
      withMap: true,
      withSet: true,
      withNullPrototype: false,
    });
    fc.assert(
      fc.property(data, (value) => {
        expect(around(value)).toStrictEqual(value);
      }),
    );
  });

  it("writes plain data as plain JSON", () => {
    expect(jsonCodec.encode({ a: [1, "b", null] })).toBe('j{"a":[1,"b",null]}');
  });

  it("refuses what would come back as something else, and says where it lies", () => {
    class Film {}
    for (const [value, message] of [
      [{ a: [new Film()] }, "an instance of Film at `result.a[0]`"],
      [{ f: () => 1 }, "a function at `result.f`"],
      [[Promise.resolve()], "an instance of Promise at `result[0]`"],
      [Symbol("s"), "a symbol at `result`"],
    ] as const)
      expect(() => jsonCodec.encode(value)).toThrow(message);
    const cycle: unknown[] = [];
    cycle.push(cycle);
    expect(() => jsonCodec.encode(cycle)).toThrow("more than 200 levels, or a cycle,");
  });

  it("refuses text that it has not written", () => {
    for (const text of ["", "x{}", "j{", 't{"$gc":["q",1]}']) expect(() => jsonCodec.decode(text)).toThrow();
  });
});
