import { type MemcachedClient, memcachedStore } from "graphql-cached/memcached";
import { FakeClock, gate, settle } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { NO_SIGNATURE } from "../../../src/store/entry.js";
import type { LeaseTimes } from "../../../src/store/store.js";
import { fakeServer } from "../../support/fake-memcached.js";

const TIMES: LeaseTimes = { leaseMs: 1_000, graceMs: 1_000, patienceMs: 500 };
const leaseRequest = (key: string) => ({ key, signature: NO_SIGNATURE, supersededAt: 0 });

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
    store.open(
      { wakeChannel: "a:wakeChannel", invalidationLog: "a:recent", controlRecord: "a:control" },
      () => undefined,
    );
    expect(() =>
      store.open(
        { wakeChannel: "b:wakeChannel", invalidationLog: "b:recent", controlRecord: "b:control" },
        () => undefined,
      ),
    ).toThrow("another `prefix`");
  });

  it("reads keys and tags of one server in one round trip", async () => {
    const { client, reads } = fakeServer();
    await memcachedStore({ client }).read(["a", "b"], ["t"]);
    expect(reads).toEqual([["a", "b", "t"]]);
  });

  it("replaces names that memcached does not accept by their digests", async () => {
    const { client, table } = fakeServer();
    const store = memcachedStore({ client });
    const names = ["with space", "line\r\nbreak", "größe", "x".repeat(251), "plain:name"];
    await store.acquire(names.map(leaseRequest), TIMES);
    expect([...table.keys()]).toHaveLength(names.length);
    expect(table.has("plain:name")).toBe(true);
    for (const name of table.keys()) expect(name).toMatch(/^[!-~]{1,250}$/);
    const { readings } = await store.read(names, []);
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
      const removed = store.invalidate(["k"]);
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
    const [grant] = await store.acquire([leaseRequest("k")], TIMES);
    if (grant?.kind !== "granted") throw new Error("expected a granted lease");
    state.isInvalidated = true;
    const { gen, grantedAt } = grant;
    const body = Buffer.from("old");
    const request = { key: "k", gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 1_000, ttlMs: 1_000, body };
    expect(await store.storeValues([request])).toEqual(["refused"]);
    expect(table.has("k")).toBe(false);
  });

  it("refuses a lease request, without a write, whose caller has stopped waiting", async () => {
    const clock = new FakeClock();
    const { client, table } = fakeServer();
    const slow: MemcachedClient = {
      ...client,
      gets: (keys) => new Promise((resolve) => clock.after(600, () => resolve(client.gets(keys)))),
    };
    const grants = memcachedStore({ client: slow, clock }).acquire([leaseRequest("k")], TIMES);
    await clock.advance(700);
    expect(await grants).toEqual([{ kind: "expired" }]);
    expect(table.size).toBe(0);
  });

  it("keeps each name on one server and moves only the names of a removed server", async () => {
    const servers = { a: fakeServer(), b: fakeServer(), c: fakeServer() };
    const names = Array.from({ length: 300 }, (_, nth) => `name:${nth}`);
    const three = memcachedStore({ servers: { a: servers.a.client, b: servers.b.client, c: servers.c.client } });
    await three.acquire(names.map(leaseRequest), TIMES);
    const sizes = Object.values(servers).map(({ table }) => table.size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(300);
    for (const size of sizes) expect(size).toBeGreaterThan(60);
    const two = memcachedStore({ servers: { c: servers.c.client, a: servers.a.client } });
    const kept = (await two.read(names, [])).readings.filter((reading) => reading.kind === "read" && reading.entry);
    expect(kept).toHaveLength(300 - servers.b.table.size);
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
    store.open({ wakeChannel: "wake", invalidationLog: "log", controlRecord: "control" }, () => undefined);
    const [version] = await store.ensureTags(["t"], 1_000);
    table.delete("t");
    await resend();
    expect((await store.read([], ["t"])).tagVersions).not.toEqual([version]);

    await store.beginWrite(["k"], "w".repeat(16), 30_000);
    await store.endWrite(["k"], "w".repeat(16));
    // The server removes an item at once that is written with a lifetime in the past.
    table.delete("k");
    await resend();
    expect((await store.acquire([leaseRequest("k")], TIMES))[0]?.kind).toBe("granted");
  });

  it("replaces an unrecognised value at the key of a tag with the next invalidation", async () => {
    const { client, table } = fakeServer();
    const store = memcachedStore({ client, clock: new FakeClock() });
    store.open({ wakeChannel: "wake", invalidationLog: "log", controlRecord: "control" }, () => undefined);
    table.set("t", { value: Buffer.from("not a version"), casUniq: "0" });
    expect((await store.read([], ["t"])).tagVersions).toEqual([undefined]);
    await store.invalidateTags(["t"], 1_000);
    expect((await store.read([], ["t"])).tagVersions[0]).toHaveLength(16);
  });

  it("changes the version of a tag only when the invalidation is in the log", async () => {
    const { client } = fakeServer();
    const logGate = gate();
    const written: string[] = [];
    const holdingClient: MemcachedClient = {
      ...client,
      async cas(name, value, options) {
        written.push(name);
        if (name === "log" && written.length === 1) await logGate.passed;
        return client.cas(name, value, options);
      },
    };
    const store = memcachedStore({ client: holdingClient, clock: new FakeClock() });
    store.open({ wakeChannel: "wake", invalidationLog: "log", controlRecord: "control" }, () => undefined);
    const versions = await store.ensureTags(["t"], 60_000);
    const position = await store.readLogPosition(store.invalidationLogs(), 60_000);
    written.length = 0;
    const invalidated = store.invalidateTags(["t"], 60_000);
    await settle();
    expect(written).toEqual(["log"]);
    logGate.open();
    await invalidated;
    expect(written).toEqual(["log", "t"]);
    expect(await store.areUnchangedSince(position, ["t"])).toBe(false);
    expect((await store.read([], ["t"])).tagVersions).not.toEqual(versions);
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
    const { readings } = await memcachedStore({ client: busyClient, clock }).read(["k"], []);
    expect(readings).toEqual([{ kind: "read", entry: undefined, now: 1_003_000 }]);
  });
});
