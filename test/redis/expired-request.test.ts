import { redisStore } from "graphql-cached/redis";
import { FakeClock } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, describe, expect, inject, it } from "vitest";
import { NO_SIGNATURE } from "../../src/store/entry.js";

const client = new Redis({ ...inject("redisStandalone"), lazyConnect: true });
afterAll(() => client.quit());

/** A store whose clock the test advances, while the server's goes on as it does. */
function subject() {
  const clock = new FakeClock();
  const store = redisStore({ client, clock });
  const acquire = async (key: string, patienceMs: number) =>
    (
      await store.acquire([{ key, signature: NO_SIGNATURE, supersededAt: 0 }], {
        leaseMs: 1_000,
        graceMs: 0,
        patienceMs,
      })
    )[0]?.kind;
  return { clock, acquire, look: () => store.read(["late-leaseRequest:any"], []) };
}

describe("a leaseRequest for a lease", () => {
  it("that reaches the server after its asker has given up is refused", async () => {
    const { acquire, look } = subject();
    await look();
    expect(await acquire("late-leaseRequest:a", -10_000)).toBe("expired");
    expect(await client.exists("late-leaseRequest:a")).toBe(0);
    expect(await acquire("late-leaseRequest:a", 10_000)).toBe("granted");
  });

  it("is not taken for late because an answer once lay unread while the process was busy", async () => {
    const { clock, acquire, look } = subject();
    await look();
    const busy = look();
    // Half a second of ours that the server does not know of: its next answer looks half a second old.
    await clock.advance(500);
    await busy;
    await look();
    expect(await acquire("late-leaseRequest:b", 400)).toBe("granted");
  });
});
