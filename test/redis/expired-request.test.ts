import { FakeClock } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { afterAll, describe, expect, it } from "vitest";
import { sharedServer } from "../support/shared-servers.js";

const client = new Redis({ ...(await sharedServer("redisStandalone")), lazyConnect: true });
afterAll(() => client.quit());

/** A store whose clock is advanced by the test, on a server with its own clock. */
function subject() {
  const clock = new FakeClock();
  const store = redisStore({ client, clock });
  const acquire = async (key: string, patienceMs: number) =>
    (
      await store.acquire(
        [{ key, oldestPosition: 0, supersededAt: 0 }],
        { leaseMs: 1_000, graceMs: 0, patienceMs },
        { epoch: "an epoch", position: 1 },
      )
    )[0]?.kind;
  return { clock, acquire, readTime: () => store.read(["late-lease-request:any"]) };
}

describe("redisStore.acquire", () => {
  it("refuses a lease request that reaches the server after its caller has stopped waiting", async () => {
    const { acquire, readTime } = subject();
    await readTime();
    expect(await acquire("late-lease-request:a", -10_000)).toBe("expired");
    expect(await client.exists("late-lease-request:a")).toBe(0);
    expect(await acquire("late-lease-request:a", 10_000)).toBe("granted");
  });

  it("accepts a lease request even if a busy process read an earlier reply late", async () => {
    const { clock, acquire, readTime } = subject();
    await readTime();
    const read = readTime();
    // The process spends half a second that the server does not, so the reply looks half a second
    // old.
    await clock.advance(500);
    await read;
    await readTime();
    expect(await acquire("late-lease-request:b", 400)).toBe("granted");
  });
});
