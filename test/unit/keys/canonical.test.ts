import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonical } from "../../../src/keys/canonical.js";
import { createKeySpace } from "../../../src/keys/key.js";

describe("canonical text", () => {
  it("is the same for equal input, whatever the order of fields", () => {
    expect(canonical({ a: 1, b: { c: 2, d: [3] } })).toBe(canonical({ b: { d: [3], c: 2 }, a: 1 }));
    expect(canonical({ a: undefined })).toBe(canonical({}));
    expect(canonical(new Set([1, 2]))).toBe(canonical(new Set([2, 1])));
  });

  it("differs wherever a resolver could tell", () => {
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
    expect(new Set(inputs.map(canonical)).size).toBe(inputs.length);
  });

  it("of different plain data is different", () => {
    const data = fc.jsonValue();
    fc.assert(fc.property(data, data, (a, b) => (canonical(a) === canonical(b)) === (stable(a) === stable(b))));
  });

  it("is refused for what is no data, and for what is too deep or too long", () => {
    class Thing {}
    let deep: unknown = 1;
    for (let level = 0; level < 100; level++) deep = [deep];
    for (const input of [() => 1, Symbol("s"), Promise.resolve(), new Thing(), deep, "x".repeat(70_000)])
      expect(() => canonical(input)).toThrow(expect.objectContaining({ code: "CACHED_KEY_UNSERIALIZABLE" }));
  });
});

describe("a key", () => {
  const keys = createKeySpace("gc");
  const of = (more: object) =>
    keys.entry({ kind: "field", coordinate: "Query.me", identity: undefined, parts: {}, ...more }).name;

  it("has the prefix, the format and the coordinate in its name, and of the input only a digest", () => {
    expect(of({ identity: "alice" })).toMatch(/^gc:1:Query\.me:[A-Za-z0-9_-]{43}$/);
  });

  it("differs by kind, coordinate, identity and parts", () => {
    const names = [
      of({}),
      of({ kind: "loader" }),
      of({ coordinate: "Query.you" }),
      of({ identity: "" }),
      of({ identity: 1 }),
      of({ identity: "1" }),
      of({ parts: [1] }),
    ];
    expect(new Set(names).size).toBe(names.length);
  });
});

/** The same question asked another way: sorted fields, every kind of value with a mark of its own. */
function stable(value: unknown): string {
  if (Array.isArray(value)) return `list(${value.map(stable).join(" ")})`;
  if (typeof value !== "object" || value === null)
    return Object.is(value, -0) ? "minus zero" : `${typeof value} ${JSON.stringify(value)}`;
  const fields = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `object(${fields.map(([name, inner]) => `${JSON.stringify(name)}=${stable(inner)}`).join(" ")})`;
}
