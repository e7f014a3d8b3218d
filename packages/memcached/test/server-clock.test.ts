import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ServerClock } from "../src/server.js";

/**
 * A ServerClock and a fake server, which is `serverMs` ahead of the process's clock and reports
 * whole seconds.
 */
function subject(serverMs: number) {
  const clock = new FakeClock();
  const state = { requests: 0, serverMs, isDown: false };
  const time = new ServerClock(async () => {
    state.requests++;
    if (state.isDown) throw new Error("down");
    return Math.floor((clock.now() + state.serverMs) / 1000);
  }, clock);
  const run = async (ms: number, everyMs: number): Promise<void> => {
    for (let passed = 0; passed < ms; passed += everyMs) {
      await clock.advance(everyMs);
      await time.ready();
    }
  };
  return { clock, state, time, run };
}

describe("ServerClock", () => {
  it("knows the time to a second after the first reply, never too late, and states the uncertainty", async () => {
    const { clock, time } = subject(5_000_700);
    await time.ready();
    const { now, slackMs } = time.time();
    const real = clock.now() + 5_000_700;
    expect(now).toBeLessThanOrEqual(real);
    expect(now + slackMs).toBeGreaterThanOrEqual(real);
    expect(slackMs).toBeLessThanOrEqual(1_000);
  });

  it("becomes exact within about a second of operations, with at most 22 requests", async () => {
    const { clock, state, time, run } = subject(5_000_700);
    await run(1_500, 10);
    const { now, slackMs } = time.time();
    expect(clock.now() + 5_000_700 - now).toBeLessThanOrEqual(60);
    expect(slackMs).toBeLessThanOrEqual(120);
    expect(state.requests).toBeLessThanOrEqual(22);
  });

  it("does not go back while it learns more about the server's time", async () => {
    const { clock, time } = subject(5_000_700);
    let latest = 0;
    for (let passed = 0; passed < 4_000; passed += 10) {
      await time.ready();
      const { now } = time.time();
      expect(now).toBeGreaterThanOrEqual(latest);
      latest = now;
      await clock.advance(passed % 70 === 0 ? 10 : 0.01);
    }
  });

  it("does not go back when a reply makes the learned offset smaller", async () => {
    const { clock, state, time, run } = subject(5_000_700);
    await run(2_000, 10);
    await clock.advance(1_500);
    const before = time.time().now;
    const { requests } = state;
    await time.ready();
    await clock.advance(0);
    expect(state.requests).toBe(requests + 1);
    expect(time.time().now).toBeGreaterThanOrEqual(before);
  });

  it("does not delay operations when a server whose time is known stops replying", async () => {
    const { state, time, run } = subject(0);
    await time.ready();
    state.isDown = true;
    await run(3_000, 100);
    expect(time.time().slackMs).toBeLessThanOrEqual(1_010);
  });

  it("rejects until the server has replied once", async () => {
    const { state, time } = subject(0);
    state.isDown = true;
    await expect(time.ready()).rejects.toThrow("down");
    state.isDown = false;
    await time.ready();
  });

  it("starts over when the server's clock is set back", async () => {
    const { clock, state, time, run } = subject(9_000_000);
    await run(2_000, 50);
    state.serverMs = 1_000_000;
    await run(2_000, 50);
    const { now, slackMs } = time.time();
    const real = clock.now() + 1_000_000;
    expect(now).toBeLessThanOrEqual(real);
    expect(now + slackMs).toBeGreaterThanOrEqual(real);
  });
});
