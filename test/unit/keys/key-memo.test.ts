import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { memoText } from "../../../src/core/keys/key.js";

const primitive = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom("", "7", "n7,", "1:a", "T", "U", "0:"),
  fc.constantFrom(0, 7, 1.5, Number.NaN, 1e21, true, false, null, undefined),
);

describe("the texts that keys are remembered by", () => {
  it("do not exist for objects, -0 and long texts", () => {
    const values = [-0, {}, [], 7n, Symbol("s"), () => 0, "x".repeat(257)];
    expect(values.map(memoText)).toEqual(values.map(() => undefined));
  });

  it("are the same for two lists of values only if these are the same", () => {
    const textOf = (values: readonly unknown[]): string => values.map(memoText).join("");
    fc.assert(
      fc.property(fc.array(primitive, { maxLength: 4 }), fc.array(primitive, { maxLength: 4 }), (some, others) => {
        const areSame = some.length === others.length && some.every((value, index) => Object.is(value, others[index]));
        expect(textOf(some) === textOf(others)).toBe(areSame);
      }),
      { numRuns: 2_000 },
    );
    const values = ["", "N", "U", "T", "0:", 0, 7, Number.NaN, true, false, null, undefined];
    expect(new Set(values.map((value) => textOf([value]))).size).toBe(values.length);
  });
});
