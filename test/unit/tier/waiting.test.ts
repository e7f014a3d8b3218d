import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { Waiting } from "../../../src/tier/waiting.js";

function waiting() {
  const clock = new FakeClock();
  return { clock, all: new Waiting(clock, () => 0.5) };
}

describe("a waiter", () => {
  it("is woken by a change of its key and of no other", async () => {
    const { all } = waiting();
    const watch = all.watch("a");
    const woken = watch.wait(0, 1_000);
    all.wake("b", undefined);
    all.wake("a", undefined);
    expect(await woken).toEqual({ kind: "changed", entry: undefined });
  });

  it("does not miss a change that comes between two of its waits", async () => {
    const { all } = waiting();
    const watch = all.watch("a");
    all.wake("a", undefined);
    expect(await watch.wait(3, 1_000)).toEqual({ kind: "changed", entry: undefined });
  });

  it("looks by itself at growing intervals, and no later than it may wait", async () => {
    const { all, clock } = waiting();
    const watch = all.watch("a");
    for (const [round, atMostMs, dueMs] of [
      [0, 1_000, 50],
      [2, 1_000, 200],
      [9, 1_000, 400],
      [9, 30, 30],
    ] as const) {
      let isOver = false;
      const woken = watch.wait(round, atMostMs).then((how) => {
        isOver = true;
        return how;
      });
      await clock.advance(dueMs - 1);
      expect(isOver).toBe(false);
      await clock.advance(1);
      expect(await woken).toEqual({ kind: "look" });
    }
  });

  it("looks when the messages may have been lost", async () => {
    const { all } = waiting();
    const woken = all.watch("a").wait(0, 1_000);
    all.wake(undefined, undefined);
    expect(await woken).toEqual({ kind: "look" });
  });
});
