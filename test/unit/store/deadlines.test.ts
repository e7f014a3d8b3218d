import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { Deadlines } from "../../../src/store/deadlines.js";

/** A clock that counts its timers, and fires them `lateMs` late, as in a process whose event loop is blocked. */
class CountingClock extends FakeClock {
  timers = 0;
  lateMs = 0;
  override after(delayMs: number, fn: () => void): () => void {
    this.timers++;
    return super.after(delayMs + this.lateMs, fn);
  }
}

function deadlinesOn(clock: CountingClock) {
  const deadlines = new Deadlines(clock);
  const beganAt = clock.now();
  const expiredAfter: Record<string, number> = {};
  const start = (name: string, ms: number) =>
    deadlines.start(ms, () => {
      expiredAfter[name] = clock.now() - beganAt;
    });
  return { deadlines, start, expiredAfter };
}

describe("the deadlines of operations in flight", () => {
  it("expire exactly when their own time is over, whenever they began and however long they are", async () => {
    const clock = new CountingClock();
    const { start, expiredAfter } = deadlinesOn(clock);
    start("first", 100);
    await clock.advance(10);
    start("second", 100);
    start("long", 500);
    await clock.advance(3);
    start("short", 40);
    await clock.advance(600);
    expect(expiredAfter).toEqual({ first: 100, second: 110, long: 510, short: 53 });
  });

  it("need one timer for a thousand operations that end in time, and none once all have ended", async () => {
    const clock = new CountingClock();
    const { deadlines, start, expiredAfter } = deadlinesOn(clock);
    for (let nth = 0; nth < 1_000; nth++) deadlines.end(start(`operation ${nth}`, 100));
    expect(clock.timers).toBe(1);
    await clock.advance(1_000);
    expect([clock.timers, expiredAfter]).toEqual([1, {}]);
  });

  it("tell an operation that ends whether its deadline has expired before", async () => {
    const clock = new CountingClock();
    const { deadlines, start } = deadlinesOn(clock);
    const [inTime, late] = [start("in time", 100), start("late", 50)];
    await clock.advance(50);
    expect([deadlines.end(inTime), deadlines.end(late), deadlines.end(inTime)]).toEqual([true, false, false]);
  });

  it("are prolonged while this process is busy, for two budgets at most", async () => {
    const clock = new CountingClock();
    const { start, expiredAfter } = deadlinesOn(clock);
    clock.lateMs = 40;
    start("busy", 100);
    await clock.advance(1_000);
    expect(expiredAfter).toEqual({ busy: 4 * 65 + 3 * 65 });
  });
});
