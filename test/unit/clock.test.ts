import { FakeClock } from "graphql-cached/testing";
import { expect, it } from "vitest";
import { within } from "../../src/clock.js";

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
