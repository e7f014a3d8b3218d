import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { NO_SIGNATURE, type Store } from "graphql-cached/store";
import { FakeClock } from "graphql-cached/testing";
import { Redis } from "ioredis";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { FakeTimeRedis } from "../support/fake-time-redis.js";
import { RedisLab } from "../support/redis-lab.js";

const TIMES = { leaseMs: 3_000, graceMs: 6_000, patienceMs: 1_000_000 };
const TTL_MS = 1_000_000;
const WRITER = "w".repeat(16);
const NAMES = { wakeChannel: "wake", invalidationLog: "log", controlRecord: "control" };

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
  store.open(NAMES, () => undefined);
  const sentBy = async <T>(call: () => Promise<T>): Promise<{ result: T; resend: () => Promise<void> }> => {
    const from = fakeTimeClient.sent.length;
    const result = await call();
    const calls = fakeTimeClient.sent.slice(from);
    return { result, resend: () => fakeTimeClient.resend(calls) };
  };
  return { clock, store, sentBy };
}

const versionOf = async (store: Store, tag: string) => (await store.read([], [tag])).tagVersions[0];
const acquire = async (store: Store, key: string) =>
  (await store.acquire([{ key, signature: NO_SIGNATURE, supersededAt: 0 }], TIMES))[0];

describe("a command that the client sends again after a reconnect", () => {
  it("does not bring an earlier version of a tag back when it changes the tag again", async () => {
    const { clock, store, sentBy } = subject();
    const versions = [...(await store.ensureTags(["t"], TTL_MS))];
    const { resend } = await sentBy(() => store.invalidateTags(["t"], 1_000));
    versions.push((await versionOf(store, "t")) as string);
    await store.invalidateTags(["t"], 1_000);
    versions.push((await versionOf(store, "t")) as string);
    for (const passedMs of [0, 60_000]) {
      await clock.advance(passedMs);
      await resend();
      const version = (await versionOf(store, "t")) as string;
      expect(versions).not.toContain(version);
      expect(version > (versions.at(-1) as string)).toBe(true);
      versions.push(version);
    }
  });

  it("gives a tag a later version each time, also while the server's clock stands still", async () => {
    const { store } = subject();
    const versions = [...(await store.ensureTags(["t"], TTL_MS))];
    for (let nth = 0; nth < 3; nth++) {
      await store.invalidateTags(["t"], 1_000);
      versions.push((await versionOf(store, "t")) as string);
    }
    expect([...new Set(versions)].sort()).toEqual(versions);
    expect(new Set(versions).size).toBe(4);
  });

  it("does not bring a lost version of a tag back when it creates the version again", async () => {
    const { clock, store, sentBy } = subject();
    const { result, resend } = await sentBy(() => store.ensureTags(["t"], TTL_MS));
    await client.del("t");
    await clock.advance(500);
    await resend();
    expect(await versionOf(store, "t")).toHaveLength(16);
    expect(await versionOf(store, "t")).not.toBe(result[0]);
  });

  it("does not mark a key or a tag as being written after the write has ended", async () => {
    const { clock, store, sentBy } = subject();
    const { resend } = await sentBy(() => store.beginWrite(["k", "t"], WRITER, 30_000));
    expect((await acquire(store, "k"))?.kind).toBe("write-in-progress");
    await store.endWrite(["k", "t"], WRITER);
    for (const passedMs of [0, 500, 4_000, 10_000, 600_000]) {
      await clock.advance(passedMs);
      await resend();
      expect((await store.read(["k"], [])).readings[0]).toMatchObject({ entry: undefined });
      expect(await versionOf(store, "t")).toBeUndefined();
    }
    expect((await acquire(store, "k"))?.kind).toBe("granted");
  });

  it("does not revive a lease chain that an invalidation has ended when it requests the lease again", async () => {
    const { clock, store, sentBy } = subject();
    const { result: grant, resend } = await sentBy(() => acquire(store, "k"));
    if (grant?.kind !== "granted") throw new Error(`expected a grant, got ${grant?.kind}`);
    await store.invalidate(["k"]);
    await clock.advance(500);
    await resend();
    const { gen, grantedAt } = grant;
    const body = Buffer.from("loaded before the invalidation");
    const request = { key: "k", gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 60_000, ttlMs: 60_000, body };
    expect(await store.storeValues([request])).toEqual(["refused"]);
  });
});

describe("beginWrite", () => {
  it("marks a name although the server's clock was set forward since this process last read it", async () => {
    const clock = new FakeClock();
    const serverClock = new FakeClock();
    const store = redisStore({ client: new FakeTimeRedis(client, serverClock), clock });
    store.open(NAMES, () => undefined);
    await store.read(["k"], []);
    await serverClock.advance(60_000);
    await store.beginWrite(["k"], WRITER, 1_000);
    expect((await acquire(store, "k"))?.kind).toBe("write-in-progress");
  });
});

describe("a value at the key of a tag that this library did not write", () => {
  const foreignValues: Record<string, () => Promise<unknown>> = {
    "a text": () => client.set("t", "not a version"),
    "sixteen bytes that are no version": () => client.set("t", "0123456789abcdef"),
    "a list": () => client.rpush("t", "not a version"),
    "a mark whose time is over": () => client.set("t", Buffer.concat([Buffer.from("g\u0002T"), Buffer.alloc(41)])),
  };
  for (const [name, put] of Object.entries(foreignValues))
    it(`is not taken for a write in progress and is replaced by the next invalidation: ${name}`, async () => {
      const { store } = subject();
      await put();
      expect(await versionOf(store, "t")).toBeUndefined();
      await store.invalidateTags(["t"], 1_000);
      const version = await versionOf(store, "t");
      expect(version).toHaveLength(16);
      expect(await store.ensureTags(["t"], TTL_MS)).toEqual([version]);
    });

  it("is replaced by a version when the tag is used", async () => {
    const { store } = subject();
    await client.set("t", "not a version");
    const [version] = await store.ensureTags(["t"], TTL_MS);
    expect(version).toHaveLength(16);
    expect(await versionOf(store, "t")).toBe(version);
  });
});

describe("the invalidation log", () => {
  const stores: Record<string, (clock: FakeClock) => Store> = {
    "the memory store": (clock) => memoryStore({ clock }),
    "the Redis store": (clock) => redisStore({ client: new FakeTimeRedis(client, clock), clock }),
  };
  for (const [name, make] of Object.entries(stores)) {
    const open = (clock: FakeClock): Store => {
      const store = make(clock);
      store.open(NAMES, () => undefined);
      return store;
    };

    it(`remembers what a process with a longer limit for loads needs on ${name}`, async () => {
      const clock = new FakeClock();
      const store = open(clock);
      const position = await store.readLogPosition(store.invalidationLogs(), 30_000);
      await clock.advance(500);
      await store.invalidateTags(["t"], 1_000);
      await clock.advance(2_000);
      await store.invalidateTags(["other"], 1_000);
      expect(await store.areUnchangedSince(position, ["t"])).toBe(false);
      expect(await store.areUnchangedSince(position, ["unrelated"])).toBe(true);
    });

    it(`refuses a process that was paused for longer than the log remembers on ${name}`, async () => {
      const clock = new FakeClock();
      const store = open(clock);
      const position = await store.readLogPosition(store.invalidationLogs(), 1_000);
      await clock.advance(500);
      await store.invalidateTags(["t"], 1_000);
      await clock.advance(5_000);
      await store.invalidateTags(["other"], 1_000);
      expect(await store.areUnchangedSince(position, ["t"])).toBe(false);
      expect(await store.areUnchangedSince(position, ["unrelated"])).toBe(false);
      const latest = await store.readLogPosition(store.invalidationLogs(), 1_000);
      expect(await store.areUnchangedSince(latest, ["t", "other"])).toBe(true);
    });

    it(`forgets the oldest of more than 20,000 tags, and says so, on ${name}`, async () => {
      const clock = new FakeClock();
      const store = open(clock);
      const position = await store.readLogPosition(store.invalidationLogs(), 60_000);
      await store.invalidateTags(["t"], 60_000);
      const later = await store.readLogPosition(store.invalidationLogs(), 60_000);
      for (let nth = 0; nth < 21; nth++)
        await store.invalidateTags(
          Array.from({ length: 1_000 }, (_, index) => `t:${nth}:${index}`),
          60_000,
        );
      expect(await store.areUnchangedSince(position, ["t"])).toBe(false);
      expect(await store.areUnchangedSince(later, ["t:0:1"])).toBe(false);
      const latest = await store.readLogPosition(store.invalidationLogs(), 60_000);
      expect(await store.areUnchangedSince(latest, ["t", "t:20:1"])).toBe(true);
    });
  }
});
