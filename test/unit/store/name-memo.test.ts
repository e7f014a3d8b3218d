import { describe, expect, it } from "vitest";
import { NameMemo } from "../../../src/store/name-memo.js";

describe("NameMemo", () => {
  it("computes each name once, and starts anew after 10,000 names", () => {
    const computed: string[] = [];
    const memo = new NameMemo((name) => (computed.push(name), name.length));
    const ask = (count: number): number => {
      for (let nth = 0; nth < count; nth++) memo.of(`n${nth}`);
      return computed.length;
    };
    expect(ask(10_000)).toBe(10_000);
    expect(ask(10_000)).toBe(10_000);
    expect(ask(10_001)).toBe(10_001);
    expect(ask(1)).toBe(10_002);
    expect(memo.of("n0")).toBe(2);
  });
});
