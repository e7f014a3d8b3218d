import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { SharedTimers, systemClock, within, withinParts } from "../../src/core/base/clock.js";

it("a time limit whose result cannot be made rejects, and throws nothing at the timer", async () => {
  const clock = new FakeClock();
  const otherwise = (): never => {
    throw new Error("too late");
  };
  const limited = expect(within(clock, new Promise(() => undefined), { ms: 10, otherwise })).rejects.toThrow(
    "too late",
  );
  await clock.advance(10);
  await limited;
});

/** A clock that notes its timers, and fires them `lateMs` late, as in a process whose event loop is blocked. */
class LateClock extends FakeClock {
  readonly delaysMs: number[] = [];
  cancelled = 0;
  lateMs = 0;
  override after(delayMs: number, fn: () => void): () => void {
    this.delaysMs.push(delayMs);
    const cancel = super.after(delayMs + this.lateMs, fn);
    return () => {
      this.cancelled++;
      cancel();
    };
  }
}

describe("a time limit that is counted in parts", () => {
  /** Begins waits for `work`, and notes after how long they are over. */
  function waitsOn(clock: LateClock, work: Promise<unknown> = new Promise(() => undefined)) {
    const beganAt = clock.now();
    const overAfter: Record<string, number> = {};
    const start = (name: string, ms: number): Promise<unknown> =>
      withinParts(clock, work, {
        ms,
        otherwise: () => {
          overAfter[name] = clock.now() - beganAt;
        },
      });
    return { start, overAfter };
  }

  it("is over exactly when its own time is, whenever it began and however long it is", async () => {
    const clock = new LateClock();
    const { start, overAfter } = waitsOn(clock);
    void start("first", 100);
    await clock.advance(10);
    void start("second", 100);
    void start("long", 500);
    await clock.advance(3);
    void start("short", 40);
    await clock.advance(600);
    expect(overAfter).toEqual({ first: 100, second: 110, long: 510, short: 53 });
  });

  it("cancels its timer once the work has ended, and sets no further one", async () => {
    for (const work of [() => Promise.resolve("result"), () => Promise.reject("result")]) {
      const clock = new LateClock();
      const { start, overAfter } = waitsOn(clock, work());
      expect(await start("in time", 100).catch((error: unknown) => error)).toBe("result");
      expect(clock.cancelled).toBe(1);
      await clock.advance(1_000);
      expect([clock.delaysMs, overAfter]).toEqual([[25], {}]);
    }
  });

  it("does not begin a part if the work ends in the turn of the event loop that follows the one before", async () => {
    const clock = new LateClock();
    let end: () => void = () => undefined;
    const { start, overAfter } = waitsOn(clock, new Promise<void>((resolve) => (end = resolve)));
    const waiting = start("in time", 100);
    clock.afterTick = (fn) => {
      end();
      setImmediate(fn);
    };
    await clock.advance(1_000);
    await waiting;
    expect([clock.delaysMs, overAfter]).toEqual([[25], {}]);
  });

  it("does not pass while this process is busy, until ten times its length", async () => {
    const clock = new LateClock();
    const { start, overAfter } = waitsOn(clock);
    clock.lateMs = 40;
    void start("busy", 100);
    await clock.advance(2_000);
    expect(overAfter).toEqual({ busy: 17 * 65 });
  });

  it("passes although timers are late by a tenth of a part, as on any host", async () => {
    const clock = new LateClock();
    const { start, overAfter } = waitsOn(clock);
    clock.lateMs = 2.5;
    void start("in time", 100);
    await clock.advance(2_000);
    expect(overAfter).toEqual({ "in time": 4 * 27.5 });
  });

  it("does not pass on a host so busy that each timer is a little late", async () => {
    const clock = new LateClock();
    let reply: (value: string) => void = () => undefined;
    const { start, overAfter } = waitsOn(clock, new Promise<string>((resolve) => (reply = resolve)));
    clock.lateMs = 5;
    const waiting = start("busy", 100);
    await clock.advance(600);
    reply("late");
    expect(await waiting).toBe("late");
    expect(overAfter).toEqual({});
  });

  it("leaves a process that was blocked for longer than the longest time a part in which it reads what has arrived", async () => {
    const clock = new LateClock();
    let reply: (value: string) => void = () => undefined;
    const { start, overAfter } = waitsOn(clock, new Promise<string>((resolve) => (reply = resolve)));
    clock.lateMs = 5_000;
    const waiting = start("blocked", 100);
    clock.lateMs = 0;
    await clock.advance(5_025);
    // The first reply has arrived meanwhile, and the second is that to what it made this process ask.
    await clock.advance(10);
    reply("second");
    expect(await waiting).toBe("second");
    expect(overAfter).toEqual({});
  });

  it("is over at once if there is no time left", async () => {
    const clock = new LateClock();
    const { start, overAfter } = waitsOn(clock);
    void start("late", -50);
    await clock.advance(0);
    expect([clock.delaysMs, overAfter]).toEqual([[0], { late: 0 }]);
  });
});

it("a timer runs outside of the asynchronous context of the request that has started it, and so does what it starts", async () => {
  const session = new AsyncLocalStorage<string>();
  const nextTimer = (): Promise<string | undefined> =>
    new Promise((resolve) => systemClock.after(0, () => resolve(session.getStore())));
  const seen = await session.run(
    "of a request",
    () =>
      new Promise((resolve) => systemClock.after(0, () => resolve(nextTimer().then((of) => [session.getStore(), of])))),
  );
  expect(seen).toEqual([undefined, undefined]);
});

/** Shared timers on a fake clock, with the number of timers that were started and cancelled. */
function shared() {
  const clock = new FakeClock();
  const count = { started: 0, cancelled: 0 };
  const timers = new SharedTimers({
    after(delayMs, fn) {
      count.started++;
      const cancel = clock.after(delayMs, fn);
      return () => {
        count.cancelled++;
        cancel();
      };
    },
  });
  return { clock, count, timers };
}

it("has one timer for all that begin in one job and last as long, and calls each of them", async () => {
  const { clock, count, timers } = shared();
  const called: string[] = [];
  for (const name of ["a", "b"]) timers.after(100, () => called.push(name));
  timers.after(200, () => called.push("longer"));
  await settle();
  timers.after(100, () => called.push("later"));
  expect(count.started).toBe(3);
  await clock.advance(100);
  expect(called).toEqual(["a", "b", "later"]);
  await clock.advance(100);
  expect(called).toEqual(["a", "b", "later", "longer"]);
});

it("calls nothing that was cancelled, and cancels a shared timer with the last that share it", async () => {
  const { clock, count, timers } = shared();
  const called: string[] = [];
  const [cancelFirst] = ["a", "b"].map((name) => timers.after(100, () => called.push(name)));
  cancelFirst?.();
  expect(count.cancelled).toBe(0);
  await clock.advance(100);
  expect(called).toEqual(["b"]);
  timers.after(100, () => called.push("c"))();
  expect(count.cancelled).toBe(1);
  // In the same job: not by the timer that was cancelled.
  timers.after(100, () => called.push("d"));
  await clock.advance(100);
  expect(called).toEqual(["b", "d"]);
});
