import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { isMemoInput, type KeyMemo, KeyMemos, memoText } from "../../../src/keys/key-memo.js";

const primitive = fc.oneof(
  fc.string({ maxLength: 4 }),
  fc.constantFrom("", "7", "n7,", "1:a", "T", "U", "0:"),
  fc.constantFrom(0, 7, 1.5, Number.NaN, 1e21, true, false, null, undefined),
);

describe("the memo of keys", () => {
  /** Uses inputs in two ticks, so that they are remembered for longer. */
  const useTwice = <Made>(memos: KeyMemos, memo: KeyMemo<Made>, madeOf: Iterable<[string | number, Made]>): void => {
    const all = [...madeOf];
    for (let at = 0; at < all.length; at += 100)
      for (let use = 0; use < 2; use++) {
        for (const [input, made] of all.slice(at, at + 100)) memo.set(input, made);
        memos.endTick();
      }
  };
  /** Each number from `from` to before `to`, as an input and what is made from it. */
  const numbers = (from: number, to: number): [number, number][] =>
    Array.from({ length: to - from }, (_, nth) => [from + nth, from + nth]);

  it("keeps what was used recently, and no more than twice its size", () => {
    for (const [memos, size] of [
      [new KeyMemos(), 2_000],
      [new KeyMemos(10_000), 10_000],
    ] as const) {
      const memo = memos.create<number>();
      useTwice(memos, memo, numbers(0, size));
      expect(memo.get(7)).toBe(7);
      useTwice(memos, memo, numbers(size, 2 * size));
      expect([memo.get(7), memo.get(2 * size - 1)]).toEqual([7, 2 * size - 1]);
      useTwice(memos, memo, numbers(2 * size, 3 * size));
      expect([memo.get(8), memo.get(3 * size - 1)]).toEqual([undefined, 3 * size - 1]);
      memo.clear();
      expect(memo.get(3 * size - 1)).toBeUndefined();
    }
  });

  it("shares its size with all memos of a cache, so that one that is not used any more does not keep what it has", () => {
    const memos = new KeyMemos();
    const [unused, busy] = [memos.create<number>(), memos.create<number>()];
    useTwice(memos, unused, numbers(0, 100));
    expect(busy.get(7)).toBeUndefined();
    useTwice(memos, busy, numbers(0, 21_000));
    expect([unused.get(7), busy.get(20_999)]).toEqual([undefined, 20_999]);
  });

  it("keeps only what is used in a second tick, whether its inputs are texts or numbers", () => {
    for (const inputOf of [(id: number) => id, (id: number) => `Film ${id}`]) {
      const memos = new KeyMemos(10_000);
      const memo = memos.create<number>();
      const isKept = (id: number): boolean => memo.get(inputOf(id)) !== undefined;
      const ids = Array.from({ length: 10_000 }, (_, id) => id);
      for (const id of ids) memo.set(inputOf(id), id);
      memos.endTick();
      // Those whose bit another input has set count as used.
      expect(ids.filter(isKept).length).toBeLessThan(1_000);
      useTwice(
        memos,
        memo,
        numbers(0, 100).map(([id, made]) => [inputOf(id), made]),
      );
      expect(ids.slice(0, 100).filter(isKept)).toHaveLength(100);
    }
  });

  it("finds what was made in this tick, and forgets it with the tick, however often it was used in it", () => {
    for (const inputOf of [(id: number) => id, (id: number) => `Film ${id}`]) {
      const memos = new KeyMemos();
      const [films, people] = [memos.create<string>(), memos.create<string>()];
      for (let tick = 0; tick < 3; tick++) {
        // Other ids in each tick: none is used in two.
        const ids = Array.from({ length: 100 }, (_, nth) => inputOf(tick * 100 + nth));
        for (const id of ids) films.set(id, `film ${id}`);
        for (let request = 0; request < 8; request++) {
          expect(ids.map((id) => films.get(id))).toEqual(ids.map((id) => `film ${id}`));
          expect(ids.filter((id) => people.get(id) !== undefined)).toEqual([]);
        }
        films.set(inputOf(-1 - tick), "later in the tick");
        expect(films.get(inputOf(-1 - tick))).toBe("later in the tick");
        memos.endTick();
        expect(ids.filter((id) => films.get(id) !== undefined)).toEqual([]);
      }
    }
  });

  it("finds what was made in this tick in any order, and from the middle of what another request has read", () => {
    const memos = new KeyMemos();
    const memo = memos.create<number>();
    const ids = numbers(0, 50);
    for (const [input, made] of ids) memo.set(input, made);
    const orders = [ids, ids.toReversed(), ids.slice(20), [...ids.slice(30), ...ids.slice(0, 30)]];
    for (const order of orders) expect(order.map(([input]) => memo.get(input))).toEqual(order.map(([, made]) => made));
    for (const [input, made] of numbers(50, 60)) memo.set(input, made);
    for (const input of [59, 50, 51, 0, 1]) expect(memo.get(input)).toBe(input);
  });

  it("pauses while its inputs are not used again before it would forget them, and goes on when they are", () => {
    for (const inputOf of [(id: number) => id, (id: number) => `Film ${id}`]) {
      const memos = new KeyMemos();
      const memo = memos.create<object>();
      /** Uses ids as requests do, a hundred a tick. Returns the part of them that was found. */
      const use = (from: number, to: number): number => {
        let found = 0;
        for (let id = from; id < to; id++) {
          if (memo.get(inputOf(id)) === undefined) memo.set(inputOf(id), {});
          else found++;
          if (id % 100 === 99) memos.endTick();
        }
        return found / (to - from);
      };
      // More ids than it can remember, in turn.
      for (let round = 0; round < 5; round++) use(0, 30_000);
      expect(use(0, 30_000)).toBe(0);
      // Few ones, again and again.
      for (let round = 0; round < 5; round++) use(0, 2_000);
      expect(use(0, 2_000)).toBe(1);
    }
  });

  it("goes on as well when requests of one tick use the same new inputs", () => {
    const memos = new KeyMemos();
    const memo = memos.create<object>();
    for (let id = 0; id < 30_000; id++) {
      memo.set(id, {});
      if (id % 100 === 99) memos.endTick();
    }
    let found = 0;
    for (let tick = 0; tick < 40; tick++) {
      found = 0;
      for (let request = 0; request < 8; request++)
        for (let nth = 0; nth < 100; nth++) {
          const id = 100_000 + tick * 100 + nth;
          if (memo.get(id) === undefined) memo.set(id, {});
          else found++;
        }
      memos.endTick();
    }
    expect(found).toBeGreaterThan(690);
  });

  it("ends a tick by itself after a thousand inputs", () => {
    const memo = new KeyMemos().create<number>();
    for (const [input, made] of numbers(0, 1_500)) memo.set(input, made);
    expect([memo.get(999), memo.get(1_000), memo.get(1_499)]).toEqual([undefined, 1_000, 1_499]);
  });

  it("finds what it remembers although it was asked for something else before", () => {
    const memos = new KeyMemos(10_000);
    const memo = memos.create<number>();
    const afterMiss = (input: number): number | undefined => {
      expect(memo.get(`unknown ${input}`)).toBeUndefined();
      return memo.get(input);
    };
    useTwice(memos, memo, numbers(0, 35_000));
    expect([20_000, 25_000, 29_999, 30_000, 34_999].map(afterMiss)).toEqual([20_000, 25_000, 29_999, 30_000, 34_999]);
    expect([8, 9_999, 15_000].map(afterMiss)).toEqual([undefined, undefined, undefined]);
    memo.clear();
    expect(afterMiss(34_999)).toBeUndefined();
    useTwice(memos, memo, [[34_999, 1]]);
    expect(afterMiss(34_999)).toBe(1);
  });

  it("tells the strings and numbers apart that name different entries, and takes neither -0 nor objects", () => {
    const memos = new KeyMemos();
    const memo = memos.create<string>();
    const both: [string | number, string][] = [
      ["7", "text"],
      [7, "number"],
    ];
    for (const [input, made] of both) memo.set(input, made);
    expect([memo.get("7"), memo.get(7)]).toEqual(["text", "number"]);
    useTwice(memos, memo, both);
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
