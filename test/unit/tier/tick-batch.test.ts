import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { TickBatch } from "../../../src/tier/tick-batch.js";

describe("TickBatch", () => {
  it("runs all items of one tick in one call, each item once", async () => {
    const calls: string[][] = [];
    const batch = new TickBatch<string, string>(
      new FakeClock(),
      async (items) => {
        calls.push([...items]);
        return items.map((item) => item.toUpperCase());
      },
      (item) => item,
    );
    expect(await Promise.all([batch.add("a"), batch.add("b"), batch.add("a")])).toEqual(["A", "B", "A"]);
    expect(await batch.add("a")).toBe("A");
    expect(calls).toEqual([["a", "b"], ["a"]]);
  });

  it("leaves items that are added during a call to the next call", async () => {
    const callGate = gate();
    const calls: string[][] = [];
    const batch = new TickBatch<string, number>(
      new FakeClock(),
      async (items) => {
        const nth = calls.push([...items]);
        await callGate.passed;
        return items.map(() => nth);
      },
      (item) => item,
    );
    const first = batch.add("a");
    await settle();
    const second = batch.add("a");
    callGate.open();
    expect(await Promise.all([first, second])).toEqual([1, 2]);
  });

  it("rejects all items of a batch when its call rejects", async () => {
    const batch = new TickBatch<string, string>(new FakeClock(), () => Promise.reject(new Error("unavailable")));
    expect((await Promise.allSettled([batch.add("a"), batch.add("b")])).map(({ status }) => status)).toEqual([
      "rejected",
      "rejected",
    ]);
  });
});
