import { FakeClock } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { ServerTimes } from "../../../src/stores/redis/entry-reader.js";

/** The reply to TIME of a server at `ms`. */
const replyOf = (ms: number): readonly Buffer[] => [
  Buffer.from(String(Math.floor(ms / 1000))),
  Buffer.from(String((ms % 1000) * 1000)),
];

describe("the time of a Redis server", () => {
  it("is reckoned for less than 100 ms from when TIME was sent, and then requested again", async () => {
    const clock = new FakeClock();
    const times = new ServerTimes(clock);
    expect(times.now("node")).toBeUndefined();
    const sentAt = clock.now();
    await clock.advance(60);
    expect(times.record("node", replyOf(5_000_000), sentAt)).toBe(5_000_060);
    expect(times.now("node")).toBe(5_000_060);
    expect(times.now("another node")).toBeUndefined();
    expect([times.now("node", sentAt + 99), times.now("node", sentAt + 100)]).toEqual([5_000_099, undefined]);
    await clock.advance(39);
    expect(times.now("node")).toBe(5_000_099);
    await clock.advance(1);
    expect(times.now("node")).toBeUndefined();
  });

  it("limits lease requests by the smallest lead that the server's clock can have", async () => {
    const clock = new FakeClock();
    const times = new ServerTimes(clock);
    expect(times.notAfter("node", 500)).toBe(0);
    const sentAt = clock.now();
    await clock.advance(60);
    times.record("node", replyOf(5_000_000), sentAt);
    expect(times.notAfter("node", 500)).toBe(5_000_500);
  });

  it("stays unknown if the reply to TIME is an error", () => {
    const clock = new FakeClock();
    const times = new ServerTimes(clock);
    expect(times.record("node", new Error("LOADING"), clock.now())).toBe(0);
    expect([times.notAfter("node", 500), times.now("node")]).toEqual([0, undefined]);
  });
});
