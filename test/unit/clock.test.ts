import { AsyncLocalStorage } from "node:async_hooks";
import { FakeClock } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { systemClock, within } from "../../src/clock.js";

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
