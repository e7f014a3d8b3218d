import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { TickBatch } from "../../../src/tier/tick-batch.js";

describe("a tick's batch", () => {
  it("is all that is asked for in one tick, each once", async () => {
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

  it("never takes in what is asked for while it is under way", async () => {
    const door = gate();
    const calls: string[][] = [];
    const batch = new TickBatch<string, number>(
      new FakeClock(),
      async (items) => {
        const nth = calls.push([...items]);
        await door.passed;
        return items.map(() => nth);
      },
      (item) => item,
    );
    const first = batch.add("a");
    await settle();
    const second = batch.add("a");
    door.open();
    expect(await Promise.all([first, second])).toEqual([1, 2]);
  });

  it("fails as one", async () => {
    const batch = new TickBatch<string, string>(new FakeClock(), () => Promise.reject(new Error("away")));
    expect((await Promise.allSettled([batch.add("a"), batch.add("b")])).map(({ status }) => status)).toEqual([
      "rejected",
      "rejected",
    ]);
  });
});
