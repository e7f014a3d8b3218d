import { describe, expect, it } from "vitest";
import { defineScript } from "../../../src/stores/redis/define-script.js";
import { readGrant } from "../../../src/stores/redis/replies.js";

describe("readGrant", () => {
  it("maps unreadable entries to unknown-format and errors to unavailable", () => {
    const token = "0123456789abcdef";
    const value = [Buffer.from("value"), Buffer.from("x"), Buffer.from("1")];
    expect(readGrant(value, token)).toEqual({ kind: "unknown-format" });
    expect(readGrant(Buffer.from("expired"), token)).toEqual({ kind: "expired" });
    expect(readGrant(new Error("OOM"), token)).toMatchObject({ kind: "unavailable" });
  });
});

describe("defineScript", () => {
  it("puts the name into the first line and orders arguments by their names", () => {
    const script = defineScript({ name: "verb-noun", args: ["first1", "second"], lua: "return 1" });
    expect(script.lua.split("\n")[0]).toBe("-- graphql-cached verb-noun");
    expect(script.argumentsFor(["a", "b"], { first1: 1, second: 2 }, ["x", "y"])).toEqual([
      2,
      "a",
      "b",
      1,
      2,
      "x",
      "y",
    ]);
    const bare = defineScript({ name: "bare", args: [], lua: "return 1" });
    expect(bare.argumentsFor(["a"], {})).toEqual([1, "a"]);
    // @ts-expect-error: an argument is missing.
    void (() => script.argumentsFor(["a"], { first1: 1 }));
    // @ts-expect-error: an argument is misspelt.
    void (() => script.argumentsFor(["a"], { first1: 1, secnod: 2 }));
  });
});
