import { FakeClock, gate, settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { LoadSharing } from "../../../src/core/tier/lease/load-sharing.js";

const LEASE_MS = 5_000;

function subject() {
  const clock = new FakeClock();
  const limit = new LoadSharing(clock, clock, { leaseMs: LEASE_MS, nestedWaitMs: 0 });
  /** Starts a load of `key`; returns a function that ends it. */
  const start = (key: string): (() => void) => {
    const { passed, open } = gate();
    limit.add(key, passed);
    return open;
  };
  return { clock, limit, start };
}

describe("the limit for loads of one key", () => {
  it("is reached with two loads of this key, until one of them ends", async () => {
    const { limit, start } = subject();
    start("a");
    start("b");
    expect(limit.isReached("a")).toBe(false);
    const end = start("a");
    expect([limit.isReached("a"), limit.isReached("b")]).toEqual([true, false]);
    end();
    await settle();
    expect(limit.isReached("a")).toBe(false);
  });

  it("does not count a load that has run for leaseMs", async () => {
    const { clock, limit, start } = subject();
    start("a");
    await clock.advance(1_000);
    start("a");
    await clock.advance(LEASE_MS - 1_001);
    expect(limit.isReached("a")).toBe(true);
    await clock.advance(1);
    expect(limit.isReached("a")).toBe(false);
  });

  it("makes readers wait until a load of their key ends, but no longer than 100 ms", async () => {
    const { clock, limit, start } = subject();
    const end = start("a");
    start("a");
    const woken: string[] = [];
    const wait = (name: string): void => void limit.untilChanged("a").then(() => woken.push(name));
    wait("first");
    await clock.advance(99);
    expect(woken).toEqual([]);
    await clock.advance(1);
    expect(woken).toEqual(["first"]);
    wait("second");
    wait("third");
    end();
    await settle();
    expect(woken).toEqual(["first", "second", "third"]);
  });
});
