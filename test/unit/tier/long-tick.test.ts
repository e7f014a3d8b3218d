import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { inTurns, LongTick, nextTurn, PER_TURN, SharedOutcome, Turns } from "../../../src/core/tier/tick/long-tick.js";

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

describe("Turns", () => {
  it("lets a limited number of callers continue in each turn of the event loop, in the order of their positions", async () => {
    const counted = countTurns();
    const turns = new Turns(new FakeClock(), Promise.resolve("outcome"));
    const order: number[] = [];
    const callers = range(3 * PER_TURN + 1).map((caller) =>
      turns.of(caller).then((outcome) => {
        counted.add();
        order.push(caller);
        return outcome;
      }),
    );
    expect(new Set(await Promise.all(callers))).toEqual(new Set(["outcome"]));
    expect(order).toEqual(range(3 * PER_TURN + 1));
    expect(counted.max()).toBe(PER_TURN);
  });

  it("says which turn is the last one of several", async () => {
    const turns = new Turns(new FakeClock(), Promise.resolve());
    const first = range(PER_TURN).map((caller) => turns.of(caller));
    expect([new Set(first).size, turns.last]).toEqual([1, undefined]);
    const last = range(PER_TURN + 1).map((caller) => turns.of(PER_TURN + caller));
    expect(turns.last).toBe(last.at(-1));
    expect(new Set(last).size).toBe(2);
    await turns.last;
  });

  it("rejects for the callers of all turns", async () => {
    const turns = new Turns(new FakeClock(), Promise.reject(new Error("unavailable")));
    const callers = range(2 * PER_TURN).map((caller) => turns.of(caller));
    const ended = await Promise.allSettled(callers);
    expect(ended.every(({ status }) => status === "rejected")).toBe(true);
  });
});

describe("SharedOutcome", () => {
  const callersOf = (outcome: SharedOutcome<unknown>, count: number): Promise<unknown>[] =>
    range(count).map(() => outcome.get());

  it("lets a limited number of callers continue in each turn of the event loop, whatever outcomes they wait for", async () => {
    const counted = countTurns();
    const longTick = new LongTick(new FakeClock());
    const order: number[] = [];
    const all = range(20).flatMap((nth) => {
      const outcome = new SharedOutcome(longTick, Promise.resolve(nth));
      return callersOf(outcome, PER_TURN / 4 + nth).map((caller) =>
        caller.then((ended) => {
          counted.add();
          if (order.at(-1) !== ended) order.push(ended as number);
        }),
      );
    });
    await Promise.all(all);
    expect(order).toEqual(range(20));
    expect(counted.max()).toBeLessThanOrEqual(PER_TURN);
  });

  it("divides the callers of one outcome, and lets them continue in the order in which they asked", async () => {
    const counted = countTurns();
    const outcome = new SharedOutcome(new LongTick(new FakeClock()), Promise.resolve("outcome"));
    const order: number[] = [];
    const callers = callersOf(outcome, 3 * PER_TURN + 1).map((caller, nth) =>
      caller.then((ended) => {
        counted.add();
        order.push(nth);
        return ended;
      }),
    );
    expect(new Set(await Promise.all(callers))).toEqual(new Set(["outcome"]));
    expect(order).toEqual(range(3 * PER_TURN + 1));
    expect(counted.max()).toBe(PER_TURN);
  });

  it("rejects for all callers", async () => {
    const outcome = new SharedOutcome(new LongTick(new FakeClock()), Promise.reject(new Error("unavailable")));
    const ended = await Promise.allSettled(callersOf(outcome, 2 * PER_TURN));
    expect(ended.every(({ status }) => status === "rejected")).toBe(true);
  });

  it("gives the outcome to a caller that asks when the others have continued", async () => {
    const outcome = new SharedOutcome(new LongTick(new FakeClock()), Promise.resolve("outcome"));
    await Promise.all(callersOf(outcome, PER_TURN));
    expect(await Promise.race([outcome.get(), settle()])).toBe("outcome");
  });

  it("counts what its callers do next as one tick", async () => {
    const longTick = new LongTick(new FakeClock());
    const outcome = new SharedOutcome(longTick, Promise.resolve());
    let continued = 0;
    const seen: number[] = [];
    for (const caller of callersOf(outcome, 2 * PER_TURN))
      void caller.then(() => {
        if (continued++ === 0) longTick.afterTick(() => seen.push(continued));
      });
    await settle();
    expect(seen).toEqual([2 * PER_TURN]);
  });
});

describe("inTurns", () => {
  it("hands out a limited number of results in each turn of the event loop, and keeps their order", async () => {
    const counted = countTurns();
    const results = inTurns(new FakeClock(), range(4 * PER_TURN + 1));
    expect(results.slice(0, PER_TURN)).toEqual(range(PER_TURN));
    for (const result of results.slice(PER_TURN)) void Promise.resolve(result).then(() => counted.add());
    expect(await Promise.all(results)).toEqual(range(4 * PER_TURN + 1));
    expect(counted.max()).toBe(PER_TURN);
  });

  it("rejects in the place of an error", async () => {
    const [failed] = inTurns<unknown>(new FakeClock(), [...range(PER_TURN), new Error("no such id")]).slice(-1);
    await expect(failed).rejects.toThrow("no such id");
  });
});

describe("LongTick", () => {
  it("ends when the last turn of divided work is over, from its first turn on", async () => {
    const tick = new LongTick(new FakeClock());
    const counted = countTurns();
    const seen: number[] = [];
    let worked = 0;
    const results = tick.map(range(3 * PER_TURN), (item) => {
      if (item === 0) tick.afterTick(() => seen.push(worked));
      counted.add();
      worked++;
      return item * 2;
    });
    expect(await results).toEqual(range(3 * PER_TURN).map((item) => item * 2));
    await settle();
    expect(seen).toEqual([3 * PER_TURN]);
    expect(counted.max()).toBe(PER_TURN);
  });

  it("is a tick of the event loop while no work is divided", async () => {
    const tick = new LongTick(new FakeClock());
    const order: string[] = [];
    tick.afterTick(() => order.push("tick"));
    await Promise.resolve().then(() => order.push("a job"));
    await settle();
    expect(order).toEqual(["a job", "tick"]);
  });

  it("does not wait for work that began while other work was being divided", async () => {
    const tick = new LongTick(new FakeClock());
    const { passed, open } = gate();
    tick.lengthen(Promise.resolve());
    tick.lengthen(passed);
    let isOver = false;
    tick.afterTick(() => {
      isOver = true;
    });
    await settle();
    expect(isOver).toBe(true);
    open();
  });
});

it("nextTurn resolves after what is ready in this turn of the event loop", async () => {
  const order: string[] = [];
  const next = nextTurn(new FakeClock(), Promise.resolve("value")).then((value) => order.push(value));
  setImmediate(() => order.push("ready"));
  await next;
  expect(order).toEqual(["ready", "value"]);
});
