import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { Waiting } from "../../../src/tier/waiting.js";

function waiting() {
  const clock = new FakeClock();
  return { clock, waiters: new Waiting(clock, () => 0.5) };
}

describe("Waiting", () => {
  it("wakes a waiter when its key changes, and not when another key does", async () => {
    const { waiters } = waiting();
    const watch = waiters.watch("a");
    const woken = watch.wait(0, 1_000);
    waiters.wake("b", undefined);
    waiters.wake("a", undefined, "gen");
    expect(await woken).toEqual({ kind: "changed", entry: undefined, gen: "gen" });
  });

  it("does not lose a change that arrives between two waits of a waiter", async () => {
    const { waiters } = waiting();
    const watch = waiters.watch("a");
    waiters.wake("a", undefined, "gen");
    expect(await watch.wait(3, 1_000)).toEqual({ kind: "changed", entry: undefined, gen: "gen" });
  });

  it("makes a waiter poll at growing intervals, but no later than its time limit", async () => {
    const { waiters, clock } = waiting();
    const watch = waiters.watch("a");
    for (const [round, maxMs, dueMs] of [
      [0, 1_000, 50],
      [2, 1_000, 200],
      [9, 1_000, 400],
      [9, 30, 30],
    ] as const) {
      let isWoken = false;
      const woken = watch.wait(round, maxMs).then((reason) => {
        isWoken = true;
        return reason;
      });
      await clock.advance(dueMs - 1);
      expect(isWoken).toBe(false);
      await clock.advance(1);
      expect(await woken).toEqual({ kind: "poll" });
    }
  });

  it("makes a waiter poll when messages may have been lost", async () => {
    const { waiters } = waiting();
    const woken = waiters.watch("a").wait(0, 1_000);
    waiters.wake(undefined, undefined);
    expect(await woken).toEqual({ kind: "poll" });
  });
});
