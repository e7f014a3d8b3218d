import { describe, expect, it } from "vitest";
import { jsonCodec } from "../../../src/core/codec/json-codec.js";
import { type Dialect, fromPlain } from "../../../src/core/codec/plain.js";

describe("the JSON codec", () => {
  it("writes plain data as plain JSON and tags only types that JSON lacks", () => {
    expect(jsonCodec.encode({ a: [1, "b", null] })).toBe(' {"a":[1,"b",null]}');
    expect(jsonCodec.encode({ a: [1, new Date(2)] })).toBe('t{"a":[1,{"$gc":["d","2"]}]}');
  });

  it("makes an ordinary field of __proto__ and of the names of methods, at each place of an object", () => {
    for (const name of ["__proto__", "constructor", "toString"])
      for (const text of [`{"${name}":{"polluted":1}}`, `{"a":1,"${name}":[2]}`, `[{"a":{"${name}":"x"}}]`]) {
        expect(JSON.stringify(jsonCodec.decode(` ${text}`))).toBe(text);
        expect(({} as { polluted?: unknown }).polluted).toBeUndefined();
      }
  });

  it("restores a value in place, also in a field called __proto__", () => {
    const plain: unknown = JSON.parse('{"a":[{"$gc":["u",0]},1],"__proto__":{"$gc":["d","1"]}}');
    const value = fromPlain(plain, {} as Dialect, {}) as object;
    expect(value).toBe(plain);
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
    expect(Object.entries(value)).toEqual([
      ["a", [undefined, 1]],
      ["__proto__", new Date(1)],
    ]);
  });

  it("rejects text that it did not write", () => {
    for (const text of ["", "x{}", "j{", 't{"$gc":["q",1]}', 't{"$gc":["m",1]}'])
      expect(() => jsonCodec.decode(text)).toThrow();
  });
});
