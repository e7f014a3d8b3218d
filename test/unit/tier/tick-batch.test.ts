import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { LongTick, PER_TURN } from "../../../src/core/tier/tick/long-tick.js";
import { TickBatch } from "../../../src/core/tier/tick/tick-batch.js";

describe("TickBatch", () => {
  it("runs all items of one tick in one call", async () => {
    const calls: string[][] = [];
    const batch = new TickBatch<string, string>(new FakeClock(), async (items) => {
      calls.push([...items]);
      return items.map((item) => item.toUpperCase());
    });
    expect(await Promise.all([batch.add("a"), batch.add("b"), batch.add("a")])).toEqual(["A", "B", "A"]);
    expect(await batch.add("a")).toBe("A");
    expect(calls).toEqual([["a", "b", "a"], ["a"]]);
  });

  it("leaves items that are added during a call to the next call", async () => {
    const callGate = gate();
    const calls: string[][] = [];
    const batch = new TickBatch<string, number>(new FakeClock(), async (items) => {
      const nth = calls.push([...items]);
      await callGate.passed;
      return items.map(() => nth);
    });
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

  it("divides thousands of callers into turns of the event loop, whose consequences are one batch", async () => {
    const clock = new FakeClock();
    const longTick = new LongTick(clock);
    const sizes: number[] = [];
    const later = new TickBatch<number, number>(longTick, async (items) => {
      sizes.push(items.length);
      return items;
    });
    const batch = new TickBatch<number, number>(clock, async (items) => items, longTick);
    const some = Array.from({ length: PER_TURN }, (_, item) => item);
    const many = Array.from({ length: 3 * PER_TURN }, (_, item) => item);
    let turns = 0;
    const count = (): void => {
      turns++;
      if (sizes.length === 0) setImmediate(count);
    };
    setImmediate(count);
    const used = await Promise.all(
      [...some, ...many].map(async (item) => {
        const result = await batch.add(item);
        expect(result).toBe(item);
        return later.add(result);
      }),
    );
    const singly = await batch.add(7).then((item) => later.add(item));
    expect(used).toEqual([...some, ...many]);
    expect(singly).toBe(7);
    expect(sizes).toEqual([4 * PER_TURN, 1]);
    expect(turns).toBeGreaterThanOrEqual(4);
  });

  it("lets each caller continue in its own asynchronous context", async () => {
    const context = new AsyncLocalStorage<string>();
    const batch = new TickBatch<string, string>(new FakeClock(), async (items) => items);
    const used = ["a", "b"].map((item) =>
      context.run(`by ${item}`, async () => `${await batch.add(item)} ${context.getStore()}`),
    );
    expect(await Promise.all(used)).toEqual(["a by a", "b by b"]);
  });
});
