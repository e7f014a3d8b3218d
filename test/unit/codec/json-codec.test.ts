import { describe, expect, it } from "vitest";
import { jsonCodec } from "../../../src/codec/json-codec.js";

describe("the JSON codec", () => {
  it("writes plain data as plain JSON and tags only types that JSON lacks", () => {
    expect(jsonCodec.encode({ a: [1, "b", null] })).toBe(' {"a":[1,"b",null]}');
    expect(jsonCodec.encode({ a: [1, new Date(2)] })).toBe('t{"a":[1,{"$gc":["d","2"]}]}');
  });

  it("rejects text that it did not write", () => {
    for (const text of ["", "x{}", "j{", 't{"$gc":["q",1]}', 't{"$gc":["m",1]}'])
      expect(() => jsonCodec.decode(text)).toThrow();
  });
});
