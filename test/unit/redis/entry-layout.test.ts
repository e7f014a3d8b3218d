import { describe, expect, it } from "vitest";
import { defineScript } from "../../../src/redis/define-script.js";
import { readEntry } from "../../../src/redis/entry-layout.js";
import { readGrant } from "../../../src/redis/read-grant.js";

describe("the bytes of an entry", () => {
  it("that are garbage, cut off or of another version are no entry", () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from("g\u0001V"),
      Buffer.alloc(100),
      Buffer.from(`g\u0002V${"\0".repeat(90)}`),
      Buffer.from(`g\u0001Q${"\0".repeat(90)}`),
    ])
      expect(readEntry(bytes)).toBeUndefined();
  });

  it("are read field by field", () => {
    const bytes = Buffer.alloc(75);
    bytes.write("g\u0001V");
    bytes[3] = 4 + 8;
    bytes.writeUInt32LE(7, 4);
    bytes.write("gen-gen-gen-gen-", 8);
    bytes.writeDoubleLE(1, 40);
    bytes.writeDoubleLE(2, 48);
    bytes.writeDoubleLE(3, 56);
    bytes.write("signatur", 64);
    bytes.write("abc", 72);
    expect(readEntry(bytes)).toMatchObject({
      state: "value",
      isNegative: true,
      isRescued: true,
      loadMs: 7,
      gen: "gen-gen-gen-gen-",
      untilAt: 1,
      freshUntilAt: 2,
      grantedAt: 3,
      signature: "signatur",
    });
    expect(Buffer.from(readEntry(bytes)?.body ?? []).toString()).toBe("abc");
  });
});

describe("a grant", () => {
  it("that cannot be read is foreign, and an error is the store's", () => {
    expect(readGrant([Buffer.from("value"), Buffer.from("x"), Buffer.from("1")])).toEqual({ kind: "foreign" });
    expect(readGrant("late")).toEqual({ kind: "late" });
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
