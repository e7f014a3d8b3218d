import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { KeyMemos, memoText } from "../../../src/core/keys/key.js";

const primitive = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom("", "7", "n7,", "1:a", "T", "U", "0:"),
  fc.constantFrom(0, 7, 1.5, Number.NaN, 1e21, true, false, null, undefined),
);

describe("the memos of a cache", () => {
  it("hold 50,000 inputs together, and are emptied before the next one", () => {
    const memos = new KeyMemos();
    const [films, people] = [new Map<string, number>(), new Map<string, number>()];
    for (let nth = 0; nth < 25_000; nth++) for (const memo of [films, people]) memos.set(memo, `n${nth},`, nth);
    expect([films.size, people.size, films.get("n7,"), people.get("n24999,")]).toEqual([25_000, 25_000, 7, 24_999]);
    memos.set(films, "n25000,", 25_000);
    expect([[...films], [...people]]).toEqual([[["n25000,", 25_000]], []]);
    for (let nth = 1; nth < 50_000; nth++) memos.set(people, `n${nth},`, nth);
    expect([films.size, people.size]).toEqual([1, 49_999]);
    memos.set(people, "n0,", 0);
    expect([films.size, people.size]).toEqual([0, 1]);
  });

  it("do not keep long inputs", () => {
    const memo = new Map<string, number>();
    const memos = new KeyMemos();
    for (const length of [256, 257]) memos.set(memo, "x".repeat(length), length);
    expect([...memo.values()]).toEqual([256]);
  });

  it("do not keep objects, -0 and long texts, of which there is no text", () => {
    const values = [-0, {}, [], 7n, Symbol("s"), () => 0, "x".repeat(257)];
    expect(values.map(memoText)).toEqual(values.map(() => undefined));
  });

  it("writes two lists of values as the same text only if they are the same", () => {
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
