import { describe, expect, it } from "vitest";
import { defineScript } from "../../../src/redis/define-script.js";
import { readGrant } from "../../../src/redis/read-grant.js";

describe("a grant", () => {
  it("that cannot be read is foreign, and an error is the store's", () => {
    expect(readGrant([Buffer.from("value"), Buffer.from("x"), Buffer.from("1")])).toEqual({ kind: "unknown-format" });
    expect(readGrant("expired")).toEqual({ kind: "expired" });
    expect(readGrant(new Error("OOM"))).toMatchObject({ kind: "unavailable" });
  });
});

describe("a script", () => {
  it("names itself in its first line, and binds its arguments by name", () => {
    const script = defineScript({ name: "noun.verb", args: ["first1", "second"], perKey: 1, lua: "return 1" });
    expect(script.lua.split("\n")[0]).toBe("-- graphql-cached noun.verb");
    expect(script.argumentsFor(["a", "b"], { first1: 1, second: 2 }, ["x", "y"])).toEqual([
      2,
      "a",
      "b",
      1,
      2,
      "x",
      "y",
    ]);
    expect(() => script.argumentsFor(["a", "b"], { first1: 1, second: 2 }, ["x"])).toThrow("every key brings 1 values");
  });
});
