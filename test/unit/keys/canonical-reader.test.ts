import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalize } from "../../../src/core/keys/canonical.js";
import { readParts, readValue } from "../../../src/core/keys/canonical-reader.js";
import { parsePath } from "../../../src/core/keys/path.js";

const pathOf = (text: string) => parsePath(text) as NonNullable<ReturnType<typeof parsePath>>;

describe("the canonical text of a value", () => {
  it("is read back as the value, for everything that JSON has", () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(readValue(canonicalize(value))).toEqual(value);
      }),
    );
  });

  it("is read back as what JSON has in the place of other values", () => {
    const value = {
      big: 2n ** 70n,
      day: new Date(0),
      bytes: Buffer.from("a"),
      raw: Uint8Array.of(1),
      map: new Map([["a", 1]]),
      set: new Set([1, "b"]),
      list: [undefined, Number.NaN, Number.NEGATIVE_INFINITY],
      small: 5e-324,
      large: 1e21,
    };
    expect(readValue(canonicalize(value))).toEqual({
      big: String(2n ** 70n),
      day: "1970-01-01T00:00:00.000Z",
      bytes: "YQ==",
      raw: "AQ==",
      map: [["a", 1]],
      set: [1, "b"],
      list: [null, "NaN", "-Infinity"],
      small: 5e-324,
      large: 1e21,
    });
    expect(readValue('c"Decimal":"1.5"')).toBe("1.5");
    expect(readValue("eNEWEST")).toBe("NEWEST");
  });

  it.each(["", "x", '"', "n", "{n1}", "[n1", "n1 ", '{"a"n1}', "i", "d", "c", "m", "b"])(
    "is refused if it is no such text: %j",
    (text) => {
      expect(() => readValue(text)).toThrow(SyntaxError);
    },
  );
});

describe("the parts of a key", () => {
  it("are read with their paths, without absent arguments and without the selection", () => {
    const paths = ["$args.id", "$args.order", "$args.filter.by", "$source.id", "$selection"].map(pathOf);
    expect(
      readParts(
        '$args.id:["7"],$args.order:absent at 0,$args.filter.by:null at 0,$source.id:n7,$selection:{a},',
        paths,
      ),
    ).toEqual([
      { root: "args", steps: ["id"], value: "7" },
      { root: "args", steps: ["filter", "by"], value: null },
      { root: "source", steps: ["id"], value: 7 },
    ]);
    expect(() => readParts("$args.name:[n1],", paths)).toThrow(SyntaxError);
  });
});
