import { FakeClock } from "@graphql-cached/testing";
import { expect, it } from "vitest";
import { Breaker } from "../../../src/core/store/breaker.js";

it("opens the breaker after five consecutive failures, admits one probe after each pause, and closes it after a success", async () => {
  const clock = new FakeClock();
  const breaker = new Breaker(clock);
  for (let nth = 0; nth < 5; nth++) {
    expect(breaker.mayTry()).toBe(true);
    breaker.failed();
  }
  expect(breaker.mayTry()).toBe(false);
  await clock.advance(250);
  expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, false]);
  breaker.failed();
  await clock.advance(300);
  expect(breaker.mayTry()).toBe(false);
  await clock.advance(250);
  expect(breaker.mayTry()).toBe(true);
  breaker.succeeded();
  expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, true]);
});

it("does not lengthen the pause when attempts fail that began before the breaker opened", async () => {
  const clock = new FakeClock();
  const breaker = new Breaker(clock);
  for (let nth = 0; nth < 10; nth++) breaker.failed();
  await clock.advance(100);
  breaker.failed();
  await clock.advance(150);
  expect([breaker.mayTry(), breaker.mayTry()]).toEqual([true, false]);
  // Whichever of the two is the probe, the pause is doubled once.
  breaker.failed();
  breaker.failed();
  await clock.advance(500);
  expect(breaker.mayTry()).toBe(true);
});

it("keeps the breaker closed while successes interrupt the failures", () => {
  const breaker = new Breaker(new FakeClock());
  for (let nth = 0; nth < 20; nth++) {
    breaker.failed();
    if (nth % 4 === 3) breaker.succeeded();
  }
  expect(breaker.mayTry()).toBe(true);
});

it("says what it does with attempts, and since when it was opened or closed", async () => {
  const clock = new FakeClock(0);
  const breaker = new Breaker(clock, 2);
  breaker.failed();
  expect(breaker.status).toEqual({ state: "closed", sinceAt: undefined });
  await clock.advance(10);
  breaker.failed();
  expect(breaker.status).toEqual({ state: "open", sinceAt: 10 });
  await clock.advance(250);
  expect(breaker.status).toEqual({ state: "half-open", sinceAt: 10 });
  breaker.mayTry();
  breaker.failed();
  expect(breaker.status).toEqual({ state: "open", sinceAt: 10 });
  await clock.advance(500);
  breaker.succeeded();
  expect(breaker.status).toEqual({ state: "closed", sinceAt: 760 });
});
