import { describe, expect, it } from "vitest";
import { AbortListeners, Caller } from "../../../src/core/tier/request/waiters.js";

describe("the caller of a read", () => {
  it.each([
    ["the same signal twice", [0, 0]],
    ["a signal whose abort aborts another one", [0, 1]],
    ["the same two in the other order", [1, 0]],
  ])("leaves once with %s, as do other callers with them", (_, positions) => {
    const [first, second] = [new AbortController(), new AbortController()];
    first.signal.addEventListener("abort", () => second.abort());
    const request = positions.map((position) => ([first, second][position] as AbortController).signal);
    const listeners = new AbortListeners();
    const left: string[] = [];
    for (const name of ["one", "two"])
      new Caller({ request, execution: undefined }, undefined, listeners).onLeft(() => left.push(name));
    first.abort();
    expect([left.length, new Set(left).size]).toEqual([2, 2]);
  });

  it("has not left if its signals abort after the answer, as they do when an execution ends", () => {
    const controller = new AbortController();
    const signals = { request: [], execution: controller.signal };
    const [answered, waiting] = [0, 1].map(() => new Caller(signals, undefined, new AbortListeners()));
    answered?.answered();
    controller.abort();
    expect([answered?.hasLeft, waiting?.hasLeft]).toEqual([false, true]);
  });
});
