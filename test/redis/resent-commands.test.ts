import { FakeClock } from "@graphql-cached/testing";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { readHead, readLog, writeRecord } from "../../src/core/store/clock-log.js";
import { originOf } from "../support/clock-origin.js";
import { FakeTimeRedis } from "../support/fake-time-redis.js";
import { RedisLab } from "../support/redis-lab.js";

const TIMES = { leaseMs: 3_000, graceMs: 6_000, patienceMs: 1_000_000 };
const NAMES = { wakeChannel: "wake", reports: "reports", clock: "clock" };

const lab = new RedisLab();
let client: Redis;
beforeAll(async () => {
  const { host, port } = await lab.standalone();
  client = new Redis(port, host);
});
beforeEach(() => client.flushall());
afterAll(async () => {
  await client.quit();
  await lab.stop();
});

/** A store on Redis, and a function that carries the commands of a call out again when it is called. */
function subject() {
  const clock = new FakeClock();
  const fakeTimeClient = new FakeTimeRedis(client, clock);
  const store = redisStore({ client: fakeTimeClient, clock });
  store.open(NAMES, { wake: () => undefined });
  const sentBy = async <T>(call: () => Promise<T>): Promise<{ result: T; resend: () => Promise<void> }> => {
    const from = fakeTimeClient.sent.length;
    const result = await call();
    const calls = fakeTimeClient.sent.slice(from);
    return { result, resend: () => fakeTimeClient.resend(calls) };
  };
  return { clock, store, sentBy };
}

const acquire = async (store: Store, key: string) =>
  (await store.acquire([{ key, oldestPosition: 0, supersededAt: 0 }], TIMES, await originOf(store)))[0];

describe("a command that the client sends again after a reconnect", () => {
  it("invalidates once more, at a later position, when it is an invalidation", async () => {
    const { clock, store, sentBy } = subject();
    const record = writeRecord({ kind: "hard", subjects: [1] });
    const { result, resend } = await sentBy(() => store.appendClock([record]));
    const heads = [readHead(result), readHead(await store.appendClock([writeRecord({ kind: "hard", subjects: [2] })]))];
    for (const passedMs of [0, 60_000]) {
      await clock.advance(passedMs);
      await resend();
      heads.push(readHead((await store.read(["k"])).clock));
    }
    expect(new Set(heads.map((head) => head?.epoch)).size).toBe(1);
    const positions = heads.map((head) => head?.position ?? 0);
    expect(positions.toSorted((one, other) => one - other)).toEqual(positions);
    expect(new Set(positions).size).toBe(4);
    expect(readLog(await store.readClock(0))?.records.map(({ subjects }) => subjects)).toEqual([
      [],
      [1],
      [2],
      [1],
      [1],
    ]);
  });

  it("brings no epoch back that was lost", async () => {
    const { clock, store, sentBy } = subject();
    const { result, resend } = await sentBy(() => store.appendClock([]));
    await client.del("clock");
    await clock.advance(500);
    await resend();
    const { epoch } = await originOf(store);
    expect(epoch).not.toBe(readHead(result)?.epoch);
    await resend();
    expect((await originOf(store)).epoch).toBe(epoch);
  });

  it("does not revive a lease chain that the removal of its key has ended when it requests the lease again", async () => {
    const { clock, store, sentBy } = subject();
    const { result: grant, resend } = await sentBy(() => acquire(store, "k"));
    if (grant?.kind !== "granted") throw new Error(`expected a grant, got ${grant?.kind}`);
    await store.remove(["k"]);
    await clock.advance(500);
    await resend();
    const { gen, grantedAt } = grant;
    const body = Buffer.from("loaded before");
    const request = { key: "k", gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 60_000, ttlMs: 60_000, body };
    expect(await store.storeValues([request])).toEqual(["refused"]);
  });
});
