import { type MemcachedClient, memcachedStore } from "@graphql-cached/memcached";
import { FakeClock, gate, settle } from "@graphql-cached/testing";
import type { ClockOrigin, Grant, LeaseTimes, Store } from "graphql-cached/store";
import { readHead, writeRecord } from "graphql-cached/store";
import { describe, expect, it } from "vitest";
import { originOf } from "../../../test/support/clock-origin.js";
import { fakeServer } from "./fake-memcached.js";

const TIMES: LeaseTimes = { leaseMs: 1_000, graceMs: 1_000, patienceMs: 500 };
const leaseRequest = (key: string) => ({ key, oldestPosition: 0, supersededAt: 0 });
const NAMES = { wakeChannel: "wake", reports: "reports", clock: "clock" };
/** What a store that is not opened for a cache knows of a clock. */
const ORIGIN: ClockOrigin = { epoch: "an epoch", position: 1 };

/** Opens a store, and begins its clock. */
async function opened(store: Store): Promise<{ store: Store; origin: ClockOrigin }> {
  store.open(NAMES, { wake: () => undefined });
  return { store, origin: await originOf(store) };
}

describe("memcachedStore", () => {
  it("refuses invalid options with a message that says what to pass", () => {
    const { client } = fakeServer();
    const create = (options: unknown) => () => memcachedStore(options as Parameters<typeof memcachedStore>[0]);
    expect(create({})).toThrow("memcachedStore: options: expected either `client` or `servers`, got neither; pass");
    expect(create(undefined)).toThrow("expected either `client` or `servers`, got neither");
    expect(create({ client, servers: { a: client } })).toThrow("expected either `client` or `servers`, got both");
    expect(create({ servers: {} })).toThrow("`servers`: expected at least one server, got none; pass");
    expect(create({ client: "localhost:11211" })).toThrow(
      '`client`: expected a client of memcache-client, got "localhost:11211"; pass new MemcacheClient({ server: "host:11211" })',
    );
    const severalServers = { ...client, options: { server: { servers: [{ server: "a:1" }, { server: "b:1" }] } } };
    expect(create({ client: severalServers })).toThrow(
      "`client`: expected a client of one server, got one of several servers",
    );
    expect(create({ servers: { a: client, b: null } })).toThrow("`servers.b`: expected a client");
    expect(create({ client, maxEntryBytes: 5 })).toThrow(
      "`maxEntryBytes`: expected an integer of at least 1024, got 5",
    );
    for (const options of [{}, { client: 7 }])
      expect(create(options)).toThrow(expect.objectContaining({ code: "CACHED_OPTION_INVALID" }));
  });

  it("refuses to serve caches with different prefixes", () => {
    const store = memcachedStore({ client: fakeServer().client });
    store.open({ wakeChannel: "a:wakeChannel", reports: "a:reports", clock: "a:clock" }, { wake: () => undefined });
    expect(() =>
      store.open({ wakeChannel: "b:wakeChannel", reports: "b:reports", clock: "b:clock" }, { wake: () => undefined }),
    ).toThrow("another `prefix`");
  });

  it("reads keys and the head of the clock in one round trip", async () => {
    const { client, reads } = fakeServer();
    const store = memcachedStore({ client });
    store.open(NAMES, { wake: () => undefined });
    await store.read(["a", "b"]);
    expect(reads).toEqual([["a", "b", "clock"]]);
  });

  it("reads nothing but the head if it is asked for no key, from one of two servers that shows it", async () => {
    const single = fakeServer();
    const one = await opened(memcachedStore({ client: single.client, clock: new FakeClock() }));
    single.reads.length = 0;
    expect(readHead((await one.store.read([])).clock)).toMatchObject(one.origin);
    expect(single.reads).toEqual([["clock"]]);

    const [a, b] = [fakeServer(), fakeServer()];
    let isDown = false;
    const first: MemcachedClient = {
      ...a.client,
      gets: (keys) => (isDown ? Promise.reject(new Error("ECONNREFUSED")) : a.client.gets(keys)),
    };
    const servers = { a: first, b: b.client, c: fakeServer().client };
    const { store } = await opened(memcachedStore({ servers, clock: new FakeClock() }));
    const head = await store.appendClock([writeRecord({ kind: "hard", subjects: [1] })]);
    a.reads.length = b.reads.length = 0;
    expect(await store.read([])).toEqual({ readings: [], clock: head });
    expect([...a.reads, ...b.reads]).toEqual([["clock:a"], ["clock:b"]]);
    isDown = true;
    expect((await store.read([])).clock).toEqual(head);
    b.table.delete("clock:b");
    expect((await store.read([])).clock).toBeUndefined();
    isDown = false;
    expect((await store.read([])).clock).toEqual(head);
    isDown = true;
    b.client.gets = () => Promise.reject(new Error("ETIMEDOUT"));
    await expect(store.read([])).rejects.toThrow("ECONNREFUSED");
  });

  it("replaces names that memcached does not accept by their digests", async () => {
    const { client, table } = fakeServer();
    const store = memcachedStore({ client });
    const names = ["with space", "line\r\nbreak", "größe", "x".repeat(251), "plain:name"];
    await store.acquire(names.map(leaseRequest), TIMES, ORIGIN);
    expect([...table.keys()]).toHaveLength(names.length);
    expect(table.has("plain:name")).toBe(true);
    for (const name of table.keys()) expect(name).toMatch(/^[!-~]{1,250}$/);
    const { readings } = await store.read(names);
    for (const reading of readings) expect(reading).toMatchObject({ entry: { state: "pending" } });
  });

  it("repeats a change that lost a race, at most 16 times", async () => {
    const clock = new FakeClock();
    const races = { left: 0 };
    const { client, reads, table } = fakeServer((entries) => {
      if (races.left-- > 0) entries.set("k", { value: Buffer.from("theirs"), casUniq: `other ${races.left}` });
    });
    const store = memcachedStore({ client, clock, random: () => 0.5 });
    for (const lost of [3, 1_000]) {
      races.left = lost;
      table.set("k", { value: Buffer.from("theirs"), casUniq: "1" });
      reads.length = 0;
      const removed = store.remove(["k"]);
      removed.catch(() => undefined);
      await clock.advance(10_000);
      if (lost === 3) await removed;
      else await expect(removed).rejects.toThrow("other processes changed the key concurrently in each of 16 attempts");
      expect(reads).toHaveLength(lost === 3 ? 4 : 16);
    }
  });

  it("refuses a value that is invalidated between the read and the write of storeValues", async () => {
    const state = { isInvalidated: false };
    const { client, table } = fakeServer((entries) => {
      if (state.isInvalidated) entries.delete("k");
    });
    const store = memcachedStore({ client });
    const [grant] = await store.acquire([leaseRequest("k")], TIMES, ORIGIN);
    if (grant?.kind !== "granted") throw new Error("expected a granted lease");
    state.isInvalidated = true;
    const { gen, grantedAt } = grant;
    const body = Buffer.from("old");
    const request = { key: "k", gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 1_000, ttlMs: 1_000, body };
    expect(await store.storeValues([request])).toEqual(["refused"]);
    expect(table.has("k")).toBe(false);
  });

  it("takes a lease whose renewal has failed for one that is held, and one of another holder for lost", async () => {
    const { client } = fakeServer();
    let isFull = false;
    const full: MemcachedClient = {
      ...client,
      async cas(key, value, options) {
        if (isFull && key === "large") throw new Error("SERVER_ERROR out of memory storing object");
        return client.cas(key, value, options);
      },
    };
    const store = memcachedStore({ client: full });
    const keys = ["small", "large"];
    const grants = await store.acquire(keys.map(leaseRequest), TIMES, ORIGIN);
    const holds = grants.map((grant, nth) => {
      if (grant.kind !== "granted") throw new Error("expected a granted lease");
      return { key: keys[nth] as string, token: grant.token };
    });
    isFull = true;
    const lost = { key: "small", token: "x".repeat(16) };
    expect(await store.renew([...holds, lost], TIMES)).toEqual([true, true, false]);
  });

  it("refuses a lease request, without a write, whose caller has stopped waiting", async () => {
    const clock = new FakeClock();
    const { client, table } = fakeServer();
    const slow: MemcachedClient = {
      ...client,
      gets: (keys) => new Promise((resolve) => clock.after(600, () => resolve(client.gets(keys)))),
    };
    const grants = memcachedStore({ client: slow, clock }).acquire([leaseRequest("k")], TIMES, ORIGIN);
    await clock.advance(700);
    expect(await grants).toEqual([{ kind: "expired" }]);
    expect(table.size).toBe(0);
  });

  it("keeps each name on one server and moves only the names of a removed server", async () => {
    const servers = { a: fakeServer(), b: fakeServer(), c: fakeServer() };
    const names = Array.from({ length: 300 }, (_, nth) => `name:${nth}`);
    const three = memcachedStore({ servers: { a: servers.a.client, b: servers.b.client, c: servers.c.client } });
    await three.acquire(names.map(leaseRequest), TIMES, ORIGIN);
    const sizes = Object.values(servers).map(({ table }) => table.size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(300);
    for (const size of sizes) expect(size).toBeGreaterThan(60);
    const two = memcachedStore({ servers: { c: servers.c.client, a: servers.a.client } });
    const kept = (await two.read(names)).readings.filter((reading) => reading.kind === "read" && reading.entry);
    expect(kept).toHaveLength(300 - servers.b.table.size);
  });

  it("keeps one clock, in whatever order the processes list the servers", async () => {
    const [a, b] = [fakeServer().client, fakeServer().client];
    const clock = new FakeClock();
    const [one, other] = [
      { a, b },
      { b, a },
    ].map((servers) => memcachedStore({ servers, clock })) as [Store, Store];
    for (const store of [one, other]) store.open(NAMES, { wake: () => undefined });
    const head = await one.appendClock([writeRecord({ kind: "hard", subjects: [1] })]);
    expect(await other.appendClock([])).toEqual(head);
    expect(await other.readClock(0)).toEqual(await one.readClock(0));
  });

  it("brings nothing back when the client carries its writes out again", async () => {
    const { client, table } = fakeServer();
    const writes: (() => Promise<unknown>)[] = [];
    const recording: MemcachedClient = {
      ...client,
      add: (...args) => (writes.push(() => client.add(...args)), client.add(...args)),
      cas: (...args) => (writes.push(() => client.cas(...args)), client.cas(...args)),
    };
    const resend = async (): Promise<void> => {
      for (const write of writes.splice(0)) await write().catch(() => undefined);
    };
    const store = memcachedStore({ client: recording, clock: new FakeClock(), random: () => 0.5 });
    store.open(NAMES, { wake: () => undefined });
    const records = [writeRecord({ kind: "hard", subjects: [1] })];
    const first = await store.appendClock(records);
    await resend();
    expect((await store.read([])).clock).toEqual(first);
    const second = await store.appendClock(records);
    table.delete("clock");
    table.delete("clock:log");
    await resend();
    const epochs = [first, second].map((head) => readHead(head)?.epoch);
    expect(epochs).not.toContain(readHead(await store.appendClock([]))?.epoch);
  });

  const acquire = async (store: Store, origin: ClockOrigin): Promise<Grant | undefined> =>
    (await store.acquire([leaseRequest("k")], TIMES, origin))[0];

  it("grants a lease under the epoch of its clock only, and at no later position than its head shows", async () => {
    const { client, table } = fakeServer();
    const { store, origin } = await opened(memcachedStore({ client, clock: new FakeClock() }));
    expect(await acquire(store, { ...origin, epoch: "no epoch" })).toEqual({ kind: "expired" });
    expect(table.has("k")).toBe(false);
    const later = { ...origin, position: origin.position + 1_000_000 };
    expect(await acquire(store, later)).toMatchObject({ kind: "granted", position: origin.position });
    table.delete("clock");
    expect(await acquire(store, origin)).toEqual({ kind: "expired" });
  });

  it("reads the head of the clock with the keys of a lease request", async () => {
    const { client, reads } = fakeServer();
    const { store, origin } = await opened(memcachedStore({ client, clock: new FakeClock() }));
    reads.length = 0;
    await acquire(store, origin);
    expect(reads).toEqual([["clock", "k"]]);
  });

  it("grants leases on a server of several whose copy of the head is missing or behind, and none if it is ahead of the caller", async () => {
    const [one, other] = [fakeServer(), fakeServer()];
    const servers = { one: one.client, other: other.client };
    const { store, origin } = await opened(memcachedStore({ servers, clock: new FakeClock() }));
    const { table } = store.nodeOf?.("k") === "other" ? other : one;
    const copy = [...table.keys()].find((name) => /^clock:(one|other)$/.test(name)) as string;
    table.delete(copy);
    const later = { epoch: "no epoch", position: origin.position + 1_000_000 };
    expect(await acquire(store, later)).toMatchObject({ kind: "granted", position: later.position });
    table.delete("k");
    await store.appendClock([]);
    expect(await acquire(store, later)).toMatchObject({ kind: "granted", position: later.position });
    table.delete("k");
    expect(await acquire(store, { epoch: "no epoch", position: origin.position - 1 })).toEqual({ kind: "expired" });
  });

  it("begins another epoch with the next invalidation if the log is lost or damaged", async () => {
    const { client, table } = fakeServer();
    const { store, origin } = await opened(memcachedStore({ client, clock: new FakeClock() }));
    const epochs = [origin.epoch];
    const damages = [
      () => table.delete("clock:log"),
      () => table.set("clock:log", { value: Buffer.from("garbage"), casUniq: "0" }),
      () => table.set("clock:log", { value: Buffer.alloc(24), casUniq: "0" }),
      () => table.set("clock:log", { value: Buffer.alloc(1_000), casUniq: "0" }),
    ];
    for (const damage of damages) {
      damage();
      expect(await store.readClock(0)).toBeUndefined();
      const head = readHead(await store.appendClock([writeRecord({ kind: "hard", subjects: [1] })]));
      expect(epochs).not.toContain(head?.epoch);
      expect(readHead((await store.read(["k"])).clock)).toEqual(head);
      epochs.push(head?.epoch as string);
    }
  });

  it.each([
    ["lost", undefined],
    ["damaged", Buffer.from("garbage")],
    ["reserved", Buffer.alloc(24)],
  ])("shows the head again, in the same epoch, after its copy was %s", async (_, value) => {
    const { client, table } = fakeServer();
    const { store, origin } = await opened(memcachedStore({ client, clock: new FakeClock() }));
    if (value === undefined) table.delete("clock");
    else table.set("clock", { value, casUniq: "0" });
    expect((await store.read(["k"])).clock).toBeUndefined();
    expect(readHead(await store.appendClock([]))).toMatchObject(origin);
    expect(readHead((await store.read(["k"])).clock)).toMatchObject(origin);
  });

  it("shows an invalidation in reads only when it is in the log", async () => {
    const { client } = fakeServer();
    const logGate = gate();
    let held: Promise<unknown> | undefined;
    const written: string[] = [];
    const holdingClient: MemcachedClient = {
      ...client,
      async cas(name, value, options) {
        written.push(name);
        if (name === "clock:log") await held;
        return client.cas(name, value, options);
      },
    };
    const clock = new FakeClock();
    const { store, origin } = await opened(memcachedStore({ client: holdingClient, clock }));
    written.length = 0;
    held = logGate.passed;
    const invalidated = store.appendClock([writeRecord({ kind: "hard", subjects: [1] })]);
    await settle();
    expect(written).toEqual(["clock:log"]);
    expect(readHead((await store.read(["k"])).clock)?.position).toBe(origin.position);
    logGate.open();
    const head = await invalidated;
    expect(written).toEqual(["clock:log", "clock"]);
    expect((await store.read(["k"])).clock).toEqual(head);
  });

  it("takes a damaged index of reports for an empty one, and lists the processes that report again", async () => {
    const { client, table } = fakeServer();
    const { store } = await opened(memcachedStore({ client, clock: new FakeClock() }));
    const write = (process: string) => store.writeReport?.(process, Buffer.from(process), 60_000);
    const found = async () =>
      ((await store.readReports?.()) ?? []).map((report) => Buffer.from(report).toString()).sort();
    await write("a");
    await write("b");
    expect(await found()).toEqual(["a", "b"]);
    table.set("reports", { value: Buffer.from("garbage, as another program has left it"), casUniq: "0" });
    expect(await found()).toEqual([]);
    expect(await write("a")).toBe(true);
    expect(await found()).toEqual(["a"]);
  });

  it("counts the server's time from before it was requested, so that a busy process serves nothing beyond its age", async () => {
    const clock = new FakeClock();
    const { client } = fakeServer();
    const busyClient: MemcachedClient = {
      ...client,
      async cmd(line) {
        const reply = await client.cmd(line);
        await clock.advance(3_000);
        return reply;
      },
    };
    const { readings } = await memcachedStore({ client: busyClient, clock }).read(["k"]);
    expect(readings).toEqual([{ kind: "read", entry: undefined, now: 1_003_000 }]);
  });
});
