import { describe, expect, it } from "vitest";
import { AbortListeners, Caller, Waiters } from "../../../src/core/tier/request/waiters.js";

function callerWith(controller: AbortController, enclosing?: Waiters): Caller {
  return new Caller({ request: [controller.signal], execution: undefined }, enclosing, new AbortListeners());
}

/** Waiters of two requests, with the controllers that abort them. */
function twoRequests() {
  const [one, other] = [new AbortController(), new AbortController()];
  const waiters = Waiters.of(callerWith(one));
  waiters.add(callerWith(other));
  return { one, other, waiters };
}

describe("the waiters of a load", () => {
  it("are gone when the last of them has left, which aborts their signal", () => {
    const { one, other, waiters } = twoRequests();
    let gone = 0;
    waiters.onGone(() => gone++);
    const { signal } = waiters;
    one.abort();
    expect([waiters.isGone, signal.aborted, gone]).toEqual([false, false, 0]);
    other.abort();
    expect([waiters.isGone, signal.aborted, gone]).toEqual([true, true, 1]);
    expect(signal.reason).toMatchObject({ name: "AbortError" });
  });

  it("never go if one of them cannot be aborted", () => {
    const { one, other, waiters } = twoRequests();
    waiters.add(undefined);
    one.abort();
    other.abort();
    expect(waiters.isGone).toBe(false);
  });

  it("do not go once their wait has ended", () => {
    const { one, other, waiters } = twoRequests();
    const { signal } = waiters;
    waiters.end();
    one.abort();
    other.abort();
    expect([waiters.isGone, signal.aborted]).toEqual([false, false]);
  });

  it("have a signal that aborts when the time of the load is over, even after their wait, without being gone", () => {
    const waiters = Waiters.of(undefined);
    const batch = new Waiters();
    batch.add({ onLeft: (leave) => waiters.onOver(leave) });
    let gone = 0;
    waiters.onGone(() => gone++);
    const { signal } = waiters;
    waiters.endWait();
    waiters.expire();
    expect([signal.aborted, batch.signal.aborted, waiters.isGone, gone]).toEqual([true, true, false, 0]);
    let late = 0;
    waiters.onOver(() => late++);
    expect(late).toBe(1);
  });

  it("keep nobody who listens to their signal once the load has ended", () => {
    const waiters = Waiters.of(undefined);
    let over = 0;
    waiters.onOver(() => over++);
    waiters.end();
    waiters.expire();
    expect(over).toBe(0);
  });

  it("do not go when one of them gives up after the wait has ended, or cannot be aborted", () => {
    const ended = new Waiters();
    const giveUp = ended.add(callerWith(new AbortController()));
    ended.end();
    giveUp();
    expect(ended.isGone).toBe(false);
    const waiters = new Waiters();
    const leave = waiters.add(callerWith(new AbortController()));
    waiters.add(undefined)();
    leave();
    expect(waiters.isGone).toBe(false);
  });

  it("count others that joined as one, which leaves when they are gone", () => {
    const first = new AbortController();
    const waiters = Waiters.of(callerWith(first));
    const joined = twoRequests();
    waiters.addAll(joined.waiters);
    first.abort();
    joined.one.abort();
    expect(waiters.isGone).toBe(false);
    joined.other.abort();
    expect(waiters.isGone).toBe(true);
  });

  it("have an aborted signal if it is first used after they are gone", () => {
    const { one, other, waiters } = twoRequests();
    one.abort();
    other.abort();
    expect(waiters.signal.aborted).toBe(true);
  });
});

describe("the caller of a load inside of another load", () => {
  it("leaves when the outer load has no waiters, not when its own request is aborted", () => {
    const request = new AbortController();
    const outer = twoRequests();
    const caller = callerWith(request, outer.waiters);
    let left = 0;
    caller.onLeft(() => left++);
    request.abort();
    expect([caller.hasLeft, left]).toEqual([false, 0]);
    outer.one.abort();
    outer.other.abort();
    expect([caller.hasLeft, left]).toEqual([true, 1]);
  });
});

describe("the caller of a load", () => {
  it.each([
    ["the same signal twice", [0, 0]],
    ["a signal whose abort aborts another one", [0, 1]],
    ["the same two in the other order", [1, 0]],
  ])("leaves once with %s, as do other callers with them", (_, positions) => {
    const controllers = [new AbortController(), new AbortController()] as const;
    controllers[0].signal.addEventListener("abort", () => controllers[1].abort());
    const request = positions.map((position) => (controllers[position] as AbortController).signal);
    const listeners = new AbortListeners();
    const left: string[] = [];
    for (const name of ["one", "two"])
      new Caller({ request, execution: undefined }, undefined, listeners).onLeft(() => left.push(name));
    controllers[0].abort();
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

  it("may have caused any error of the load once it has left, and after its answer only its own abort", () => {
    const request = new AbortController();
    const caller = callerWith(request);
    const error = new Error("connection reset");
    expect(caller.mayHaveCaused(error)).toBe(false);
    request.abort();
    expect(caller.mayHaveCaused(error)).toBe(true);
    caller.answered();
    expect(caller.mayHaveCaused(error)).toBe(false);
    expect(caller.mayHaveCaused(request.signal.reason)).toBe(true);
    expect(caller.mayHaveCaused(new Error("fetch failed", { cause: request.signal.reason }))).toBe(true);
  });

  it("leaves at once for a listener that is added after its abort, and never for one that was removed", () => {
    const request = new AbortController();
    const caller = callerWith(request);
    let removed = 0;
    caller.onLeft(() => removed++)();
    request.abort(new Error("hung up"));
    let late = 0;
    caller.onLeft(() => late++);
    expect([removed, late]).toEqual([0, 1]);
    expect(caller.reason).toEqual(new Error("hung up"));
  });

  it("are counted until they have left or their wait has ended, those that were added as one included", () => {
    const { one, waiters } = twoRequests();
    const others = twoRequests();
    waiters.addAll(others.waiters);
    expect(waiters.count).toBe(4);
    one.abort();
    others.other.abort();
    expect(waiters.count).toBe(2);
    waiters.add(undefined);
    expect(waiters.count).toBe(3);
    others.waiters.end();
    expect(waiters.count).toBe(2);
    waiters.end();
    expect(waiters.count).toBe(0);
  });
});
