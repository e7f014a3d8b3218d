import { FakeClock, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { inTurn, LongTick, PER_TURN } from "../../../src/core/tier/tick/long-tick.js";

const range = (count: number): readonly number[] => Array.from({ length: count }, (_, index) => index);

/** Counts what is done in each turn of the event loop. */
function countTurns() {
  const counts: number[] = [0];
  let isRunning = true;
  const count = (): void => {
    counts.push(0);
    if (isRunning) setImmediate(count);
  };
  setImmediate(count);
  return {
    add: () => counts.push((counts.pop() as number) + 1),
    max: () => {
      isRunning = false;
      return Math.max(...counts);
    },
  };
}

describe("LongTick", () => {
  /** Lets callers continue in their turns, and resolves when all of them have. */
  async function letContinue(longTick: LongTick, count: number, go: (position: number) => void): Promise<void> {
    const turns = longTick.turnsFor(count);
    await Promise.all(range(count).map((position) => inTurn(turns, position, () => go(position))));
  }

  it("lets a limited number of callers continue in each turn of the event loop, whatever they wait for", async () => {
    const counted = countTurns();
    const longTick = new LongTick(new FakeClock());
    const order: number[] = [];
    const all = range(20).map((nth) =>
      letContinue(longTick, PER_TURN / 4 + nth, () => {
        counted.add();
        if (order.at(-1) !== nth) order.push(nth);
      }),
    );
    await Promise.all(all);
    expect(order).toEqual(range(20));
    expect(counted.max()).toBeLessThanOrEqual(PER_TURN);
  });

  it("divides the callers that wait for the same, and lets them continue in their order", async () => {
    const counted = countTurns();
    const order: number[] = [];
    await letContinue(new LongTick(new FakeClock()), 3 * PER_TURN + 1, (position) => {
      counted.add();
      order.push(position);
    });
    expect(order).toEqual(range(3 * PER_TURN + 1));
    expect(counted.max()).toBe(PER_TURN);
  });

  it("ends when the last turn of divided callers is over, from the first one on", async () => {
    const longTick = new LongTick(new FakeClock());
    let continued = 0;
    const seen: number[] = [];
    await letContinue(longTick, 3 * PER_TURN, () => {
      if (continued++ === 0) longTick.afterTick(() => seen.push(continued));
    });
    await settle();
    expect(seen).toEqual([3 * PER_TURN]);
  });

  it("is a tick of the event loop while no callers are divided", async () => {
    const longTick = new LongTick(new FakeClock());
    const order: string[] = [];
    longTick.afterTick(() => order.push("tick"));
    await Promise.resolve().then(() => order.push("a job"));
    await settle();
    expect(order).toEqual(["a job", "tick"]);
  });

  it("does not wait for callers that come while others are being divided", async () => {
    const longTick = new LongTick(new FakeClock());
    let continued = 0;
    const go = (): void => {
      continued++;
    };
    const first = letContinue(longTick, 2 * PER_TURN, go);
    const seen: number[] = [];
    longTick.afterTick(() => seen.push(continued));
    await Promise.all([first, letContinue(longTick, 2 * PER_TURN, go)]);
    expect(seen).toEqual([2 * PER_TURN]);
  });

  it("hands out a limited number of results in each turn of the event loop, errors too, and keeps their order", async () => {
    const counted = countTurns();
    const failure = new Error("no such id");
    const results = new LongTick(new FakeClock()).inTurns<unknown>([...range(4 * PER_TURN), failure]);
    expect(results.slice(0, PER_TURN)).toEqual(range(PER_TURN));
    for (const result of results.slice(PER_TURN, -1)) void Promise.resolve(result).then(() => counted.add());
    await expect(results.at(-1)).rejects.toBe(failure);
    expect(await Promise.all(results.slice(0, -1))).toEqual(range(4 * PER_TURN));
    expect(counted.max()).toBe(PER_TURN);
  });
});
