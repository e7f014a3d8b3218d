import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isMemoInput, type KeyMemo, KeyMemos, memoText } from "../../../src/keys/key-memo.js";

const primitive = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom("", "7", "n7,", "1:a", "T", "U", "0:"),
  fc.constantFrom(0, 7, 1.5, Number.NaN, 1e21, true, false, null, undefined),
);

describe("the memo of keys", () => {
  /** Uses an input until it is remembered. */
  const useTwice = <Made>(memo: KeyMemo<Made>, input: string | number, made: Made): void => {
    for (let use = 0; use < 2; use++) memo.set(input, made);
  };

  it("keeps what was used recently, and no more than twice its size", () => {
    const memo = new KeyMemos().create<number>();
    for (let input = 0; input < 10_000; input++) useTwice(memo, input, input);
    expect(memo.get(7)).toBe(7);
    for (let input = 10_000; input < 20_000; input++) useTwice(memo, input, input);
    expect([memo.get(7), memo.get(19_999)]).toEqual([7, 19_999]);
    for (let input = 20_000; input < 30_000; input++) useTwice(memo, input, input);
    expect([memo.get(8), memo.get(29_999)]).toEqual([undefined, 29_999]);
    memo.clear();
    expect(memo.get(29_999)).toBeUndefined();
  });

  it("shares its size with all memos of a cache, so that one that is not used any more does not keep what it has", () => {
    const memos = new KeyMemos();
    const [unused, busy] = [memos.create<number>(), memos.create<number>()];
    for (let input = 0; input < 100; input++) useTwice(unused, input, input);
    expect(busy.get(7)).toBeUndefined();
    for (let input = 0; input < 21_000; input++) useTwice(busy, input, input);
    expect([unused.get(7), busy.get(20_999)]).toEqual([undefined, 20_999]);
  });

  it("keeps only what is used a second time, whether its inputs are texts or numbers", () => {
    for (const inputOf of [(id: number) => id, (id: number) => `Film ${id}`]) {
      const memo = new KeyMemos().create<number>();
      const isKept = (id: number): boolean => memo.get(inputOf(id)) !== undefined;
      const ids = Array.from({ length: 10_000 }, (_, id) => id);
      for (const id of ids) memo.set(inputOf(id), id);
      // Those whose bit another input has set count as used.
      expect(ids.filter(isKept).length).toBeLessThan(1_000);
      for (let use = 0; use < 2; use++) for (const id of ids.slice(0, 100)) memo.set(inputOf(id), id);
      expect(ids.slice(0, 100).filter(isKept)).toHaveLength(100);
    }
  });

  it("finds what it remembers although it was asked for something else before", () => {
    const memo = new KeyMemos().create<number>();
    const afterMiss = (input: number): number | undefined => {
      expect(memo.get(`unknown ${input}`)).toBeUndefined();
      return memo.get(input);
    };
    for (let input = 0; input < 35_000; input++) useTwice(memo, input, input);
    expect([20_000, 25_000, 29_999, 30_000, 34_999].map(afterMiss)).toEqual([20_000, 25_000, 29_999, 30_000, 34_999]);
    expect([8, 9_999, 15_000].map(afterMiss)).toEqual([undefined, undefined, undefined]);
    memo.clear();
    expect(afterMiss(34_999)).toBeUndefined();
    useTwice(memo, 34_999, 1);
    expect(afterMiss(34_999)).toBe(1);
  });

  it("tells the strings and numbers apart that name different entries, and takes neither -0 nor objects", () => {
    const memo = new KeyMemos().create<string>();
    useTwice(memo, "7", "text");
    useTwice(memo, 7, "number");
    expect([memo.get("7"), memo.get(7)]).toEqual(["text", "number"]);
    expect([-0, {}, null, true, 7n, "x".repeat(257)].map(isMemoInput)).toEqual(Array(6).fill(false));
    expect([-0, {}, [], 7n, Symbol("s"), () => 0, "x".repeat(257)].map(memoText)).toEqual(Array(7).fill(undefined));
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
