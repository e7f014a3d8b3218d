import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { Waiting, type Watch } from "../../../src/core/tier/lease/waiting.js";

function waiting() {
  const clock = new FakeClock();
  const waiters = new Waiting(clock, () => 0.5);
  /** Expects that a waiter polls after `dueMs`, and not before. */
  const expectPoll = async (watch: Watch, round: number, maxMs: number, dueMs: number): Promise<void> => {
    let isWoken = false;
    const woken = waiters.wait(watch, round, maxMs).finally(() => {
      isWoken = true;
    });
    await clock.advance(dueMs - 1);
    expect(isWoken).toBe(false);
    await clock.advance(1);
    expect(await woken).toEqual({ kind: "poll" });
  };
  return { clock, waiters, expectPoll };
}

describe("Waiting", () => {
  it("wakes a waiter when its key changes, and not when another key does", async () => {
    const { waiters } = waiting();
    const watch = waiters.watch("a");
    const woken = waiters.wait(watch, 0, 1_000);
    waiters.wake("b", undefined);
    waiters.wake("a", undefined, "gen");
    expect(await woken).toEqual({ kind: "changed", entry: undefined, gen: "gen" });
  });

  it("does not lose a change that arrives between two waits of a waiter", async () => {
    const { waiters } = waiting();
    const watch = waiters.watch("a");
    waiters.wake("a", undefined, "gen");
    expect(await waiters.wait(watch, 3, 1_000)).toEqual({ kind: "changed", entry: undefined, gen: "gen" });
  });

  it("makes a waiter poll at growing intervals, but no later than its time limit", async () => {
    const { waiters, expectPoll } = waiting();
    const watch = waiters.watch("a");
    await expectPoll(watch, 0, 1_000, 50);
    await expectPoll(watch, 2, 1_000, 200);
    await expectPoll(watch, 9, 1_000, 400);
    await expectPoll(watch, 9, 30, 30);
  });

  describe("while messages arrive", () => {
    /** Returns after how long a waiter would poll at first. */
    function firstPollMs({ waiters, clock }: ReturnType<typeof waiting>): number {
      const watch = waiters.watch("b");
      void waiters.wait(watch, 0, 10_000);
      const pollMs = watch.dueAt - clock.now();
      waiters.end(watch);
      return pollMs;
    }

    /** Returns a watch that has just polled. */
    async function polledWatch({ waiters, clock }: ReturnType<typeof waiting>): Promise<Watch> {
      const watch = waiters.watch("a");
      const woken = waiters.wait(watch, 0, 10_000);
      await clock.advance(200);
      expect(await woken).toEqual({ kind: "poll" });
      return watch;
    }

    async function beWoken({ waiters }: ReturnType<typeof waiting>): Promise<void> {
      const watch = waiters.watch("a");
      const woken = waiters.wait(watch, 0, 10_000);
      waiters.wake("a", undefined, "gen");
      await woken;
      waiters.end(watch);
    }

    it("polls later at first, since a poll then finds something only if a message was lost", async () => {
      const parts = waiting();
      expect(firstPollMs(parts)).toBe(50);
      await beWoken(parts);
      expect(firstPollMs(parts)).toBe(200);
    });

    it("doubles the interval from there, up to the same bound", async () => {
      const parts = waiting();
      await beWoken(parts);
      const watch = parts.waiters.watch("a");
      for (const [round, dueMs] of [200, 400, 400].entries()) await parts.expectPoll(watch, round, 10_000, dueMs);
    });

    it("polls early again after a wait that a poll has ended, in place of a message", async () => {
      const parts = waiting();
      await beWoken(parts);
      parts.waiters.end(await polledWatch(parts));
      expect(firstPollMs(parts)).toBe(50);
    });

    it("goes on polling late after a poll that found nothing, or that a message overtook, and after a wait at its time limit", async () => {
      const parts = waiting();
      await beWoken(parts);
      const watch = await polledWatch(parts);
      const second = parts.waiters.wait(watch, 1, 10_000);
      expect(firstPollMs(parts)).toBe(200);
      parts.waiters.wake("a", undefined, "gen");
      await second;
      parts.waiters.end(watch);
      expect(firstPollMs(parts)).toBe(200);

      const left = await polledWatch(parts);
      void parts.waiters.wait(left, 1, 10_000);
      parts.waiters.end(left);
      expect(firstPollMs(parts)).toBe(200);

      const overtaken = await polledWatch(parts);
      parts.waiters.wake("a", undefined, "gen");
      parts.waiters.end(overtaken);
      expect(firstPollMs(parts)).toBe(200);

      const limited = parts.waiters.watch("a");
      const over = parts.waiters.wait(limited, 0, 30);
      await parts.clock.advance(30);
      expect(await over).toEqual({ kind: "poll" });
      parts.waiters.end(limited);
      expect(firstPollMs(parts)).toBe(200);
    });

    it("polls early again once messages may have been lost", async () => {
      const parts = waiting();
      await beWoken(parts);
      parts.waiters.wake(undefined, undefined);
      expect(firstPollMs(parts)).toBe(50);
    });

    it("ignores a message for a key without waiters", () => {
      const parts = waiting();
      parts.waiters.wake("a", undefined, "gen");
      expect(firstPollMs(parts)).toBe(50);
    });
  });

  it("makes a waiter poll when messages may have been lost", async () => {
    const { waiters } = waiting();
    const woken = waiters.wait(waiters.watch("a"), 0, 1_000);
    waiters.wake(undefined, undefined);
    expect(await woken).toEqual({ kind: "poll" });
  });

  it("ends the waits of 130,000 waiters without an exception", async () => {
    const { waiters, clock } = waiting();
    let polled = 0;
    const waits = Array.from({ length: 130_000 }, (_, index) =>
      waiters.wait(waiters.watch(`key ${index}`), index % 5, 1_000).then(({ kind }) => {
        if (kind === "poll") polled++;
      }),
    );
    await clock.advance(400);
    await Promise.all(waits);
    expect(polled).toBe(130_000);
  });

  it("does not visit waiters that are not due when others are due", async () => {
    const { waiters, clock } = waiting();
    const visits = { count: 0 };
    for (let index = 0; index < 1_000; index++) {
      const watch = waiters.watch(`slow ${index}`);
      void waiters.wait(watch, 9, 1_000);
      let { dueAt } = watch;
      Object.defineProperty(watch, "dueAt", {
        get: () => {
          visits.count++;
          return dueAt;
        },
        set: (value: number) => {
          dueAt = value;
        },
      });
    }
    const fast = waiters.watch("fast");
    for (let poll = 0; poll < 5; poll++) {
      const woken = waiters.wait(fast, 0, 1_000);
      await clock.advance(50);
      expect(await woken).toEqual({ kind: "poll" });
    }
    expect(visits.count).toBeLessThan(20);
  });

  it("polls in the order of due times after early wake-ups and ends", async () => {
    const { waiters, clock } = waiting();
    const order: number[] = [];
    const watches = [7, 3, 9, 1, 5, 8, 2, 6, 4].map((due) => {
      const watch = waiters.watch(`key ${due}`);
      void waiters.wait(watch, 9, due * 40).then(({ kind }) => {
        if (kind === "poll") order.push(due);
      });
      return { due, watch };
    });
    waiters.wake("key 3", undefined);
    for (const { due, watch } of watches) if (due === 5) waiters.end(watch);
    await clock.advance(400);
    expect(order).toEqual([1, 2, 4, 6, 7, 8, 9]);
  });
});
