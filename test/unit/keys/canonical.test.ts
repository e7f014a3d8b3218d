import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalize } from "../../../src/core/keys/canonical.js";
import { CHECK_LENGTH, checkOf, createKeySpace } from "../../../src/core/keys/key.js";

describe("canonicalize", () => {
  it("returns the same text for equal input, and counts undefined fields as absent", () => {
    expect(canonicalize({ a: 1, b: { c: 2, d: [3] } })).toBe(canonicalize({ a: 1, b: { c: 2, d: [3] } }));
    expect(canonicalize({ a: undefined })).toBe(canonicalize({}));
  });

  it("refuses an array that has more than its members, as the result of a regular expression does", () => {
    expect(() => canonicalize({ title: "7-up".match(/\d/) })).toThrow(
      "expected plain data, got an array with the property `groups`",
    );
    // biome-ignore lint/suspicious/noSparseArray: a hole is not a property.
    expect(canonicalize([1, , 3])).not.toBe(canonicalize([1, 3]));
  });

  it("returns different texts for inputs that a resolver can distinguish", () => {
    const inputs = [
      1,
      "1",
      1n,
      true,
      "true",
      null,
      undefined,
      "null",
      [1],
      ["1"],
      [[1]],
      {},
      [],
      "",
      0,
      -0,
      false,
      new Date(1),
      new Map(),
      new Set(),
      Buffer.from("1"),
      new Uint8Array(Buffer.from("1")),
      { a: 1, b: 2 },
      { b: 2, a: 1 },
      new Set([1, 2]),
      new Set([2, 1]),
      new Map([
        [1, 1],
        [2, 2],
      ]),
      new Map([
        [2, 2],
        [1, 1],
      ]),
      new Array(1),
      { a: 1 },
      { a: "1" },
      { a: null },
      ["a,b"],
      ["a", "b"],
      '{"a":1}',
      "é",
      "e\u0301",
      "\ud800",
    ];
    expect(new Set(inputs.map((input) => canonicalize(input))).size).toBe(inputs.length);
  });

  it("returns equal texts exactly for equal JSON values", () => {
    const data = fc.jsonValue();
    fc.assert(
      fc.property(
        data,
        data,
        (a, b) => (canonicalize(a) === canonicalize(b)) === (referenceText(a) === referenceText(b)),
      ),
    );
  });

  it("rejects functions, symbols, promises and class instances, and input that is too deep or too long", () => {
    class Thing {}
    class Money extends Date {}
    class Group extends Set {}
    class Pairs extends Map {}
    class Bytes extends Uint8Array {}
    class List extends Array {}
    let deep: unknown = 1;
    for (let level = 0; level < 100; level++) deep = [deep];
    const instances = [new Thing(), new Money(), new Group(), new Pairs(), new Bytes(), new List()];
    for (const input of [() => 1, Symbol("s"), Promise.resolve(), ...instances, deep, "x".repeat(70_000)])
      expect(() => canonicalize(input)).toThrow(expect.objectContaining({ code: "CACHED_KEY_UNSERIALIZABLE" }));
  });
});

describe("a key name", () => {
  const keys = createKeySpace("gc");
  const variantOf = (id: string) => ({ id, form: 1 });
  const nameOf = (inputs: object) =>
    keys.entry(
      { kind: "field", coordinate: "Query.me", identity: undefined, parts: "{}", ...inputs },
      variantOf("variant"),
    ).name;

  it("contains the prefix, the format, the coordinate, the variant and only a digest of the input", () => {
    expect(nameOf({ identity: "alice" })).toMatch(/^gc:3:Query\.me:variant:[A-Za-z0-9_-]{22}$/);
  });

  it("has the first 132 bits of the SHA-256 of the input, and its check has the second half", () => {
    for (let nth = 0; nth < 100; nth++) {
      const input = { kind: "field", coordinate: "Query.me", identity: undefined, parts: `[n${nth}]` } as const;
      const key = keys.entry(input, variantOf("variant"));
      const whole = createHash("sha256").update(key.input).digest();
      expect(key.digest).toBe(whole.toString("base64url").slice(0, 22));
      expect(key.name.endsWith(`:${key.digest}`)).toBe(true);
      expect(checkOf(key)).toHaveLength(CHECK_LENGTH);
      // Its first character begins with the last two bits of the first half.
      expect(Buffer.from(`${"A".repeat(21)}${checkOf(key)}`, "base64url").subarray(16)).toEqual(whole.subarray(16));
    }
  });

  it("differs between kinds, coordinates, identities and parts", () => {
    const names = [
      nameOf({}),
      nameOf({ kind: "loader" }),
      nameOf({ coordinate: "Query.you" }),
      nameOf({ identity: "" }),
      nameOf({ identity: "1" }),
      nameOf({ identity: '" "' }),
      nameOf({ parts: "[n1]" }),
    ];
    expect(new Set(names).size).toBe(names.length);
  });

  it("can be written for another variant, without the input", () => {
    const input = { kind: "field", coordinate: "Query.me", identity: "alice", parts: "{}" } as const;
    expect(keys.nameUnder(keys.entry(input, variantOf("old")), "new")).toBe(keys.entry(input, variantOf("new")).name);
  });
});

describe("tags, and the names of the logs and of the channel", () => {
  it("contain neither the format nor a variant, so that all releases have them in common", () => {
    const { tags, groupTag, clock, reports, wakeChannel } = createKeySpace("gc", "a release");
    const other = createKeySpace("gc", "another release");
    const call = { kind: "field", coordinate: "Query.me", identity: undefined, parts: "{}" } as const;
    expect([clock, reports, wakeChannel]).toEqual(["gc:#clock", "gc:#reports", "gc:#wake"]);
    expect([tags(["Movie:7"]), groupTag(call)]).toEqual([other.tags(["Movie:7"]), other.groupTag(call)]);
    for (const subject of [...tags(["Movie:7"]), groupTag(call)]) expect(Number.isSafeInteger(subject)).toBe(true);
  });
});

/** An independent implementation to compare with: every type has its own marker. */
function referenceText(value: unknown): string {
  if (Array.isArray(value)) return `list(${value.map(referenceText).join(" ")})`;
  if (typeof value !== "object" || value === null)
    return Object.is(value, -0) ? "minus zero" : `${typeof value} ${JSON.stringify(value)}`;
  return `object(${Object.entries(value)
    .map(([name, inner]) => `${JSON.stringify(name)}=${referenceText(inner)}`)
    .join(" ")})`;
}
