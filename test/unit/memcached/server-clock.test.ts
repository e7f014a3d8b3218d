import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ServerClock } from "../../../src/memcached/server-clock.js";

/** A server that tells whole seconds of `serverMs` more than our clock, and a clock that learns it. */
function subject(serverMs: number) {
  const clock = new FakeClock();
  const state = { asked: 0, serverMs, isAway: false };
  const time = new ServerClock(async () => {
    state.asked++;
    if (state.isAway) throw new Error("away");
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

describe("the time of a server that tells seconds", () => {
  it("is known at once to a second, never too late, and what is not known of it is said", async () => {
    const { clock, time } = subject(5_000_700);
    await time.ready();
    const { now, slackMs } = time.time();
    const real = clock.now() + 5_000_700;
    expect(now).toBeLessThanOrEqual(real);
    expect(now + slackMs).toBeGreaterThanOrEqual(real);
    expect(slackMs).toBeLessThanOrEqual(1_000);
  });

  it("becomes exact with the operations of the first second, which share their questions", async () => {
    const { clock, state, time, run } = subject(5_000_700);
    await run(1_500, 10);
    const { now, slackMs } = time.time();
    expect(clock.now() + 5_000_700 - now).toBeLessThanOrEqual(60);
    expect(slackMs).toBeLessThanOrEqual(120);
    expect(state.asked).toBeLessThanOrEqual(22);
  });

  it("does not go back while more is learnt of it", async () => {
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

  it("is nobody's to wait for once it is known, though the server does not answer", async () => {
    const { state, time, run } = subject(0);
    await time.ready();
    state.isAway = true;
    await run(3_000, 100);
    expect(time.time().slackMs).toBeLessThanOrEqual(1_010);
  });

  it("cannot be had from a server that never answered", async () => {
    const { state, time } = subject(0);
    state.isAway = true;
    await expect(time.ready()).rejects.toThrow("away");
    state.isAway = false;
    await time.ready();
  });

  it("is learnt anew when the server's clock was set back", async () => {
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
