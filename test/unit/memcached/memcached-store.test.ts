import { type MemcachedClient, memcachedStore } from "graphql-cached/memcached";
import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { NO_SIGNATURE } from "../../../src/store/entry.js";
import type { LeaseTimes } from "../../../src/store/store.js";

const TIMES: LeaseTimes = { leaseMs: 1_000, graceMs: 1_000, patienceMs: 500 };
const leaseRequest = (key: string) => ({ key, signature: NO_SIGNATURE, supersededAt: 0 });

/** A server of one table, which tells what it was asked; `meddle` is called before every write. */
function fakeServer(meddle: (table: Map<string, { value: Buffer; casUniq: string }>) => void = () => undefined) {
  const table = new Map<string, { value: Buffer; casUniq: string }>();
  const asked: string[][] = [];
  let casUniq = 0;
  const write = (key: string, value: Buffer): string[] => {
    table.set(key, { value, casUniq: String(++casUniq) });
    return ["STORED"];
  };
  const client: MemcachedClient = {
    async gets(keys) {
      asked.push(keys);
      return Object.fromEntries(keys.flatMap((key) => (table.has(key) ? [[key, table.get(key)]] : [])));
    },
    async add(key, value) {
      meddle(table);
      if (table.has(key)) throw new Error("NOT_STORED");
      return write(key, value);
    },
    async cas(key, value, options) {
      meddle(table);
      if (table.get(key)?.casUniq !== options.casUniq) throw new Error(table.has(key) ? "EXISTS" : "NOT_FOUND");
      return write(key, value);
    },
    async cmd() {
      return { STAT: [["time", "1000"]] };
    },
  };
  return { client, table, asked };
}

describe("a memcached store", () => {
  it("says what is wrong with its options", () => {
    const { client } = fakeServer();
    const making = (options: unknown) => () => memcachedStore(options as Parameters<typeof memcachedStore>[0]);
    expect(making({})).toThrow("memcachedStore: either `client` or `servers` was expected, neither came");
    expect(making(undefined)).toThrow("either `client` or `servers` was expected");
    expect(making({ client, servers: { a: client } })).toThrow("both came");
    expect(making({ servers: {} })).toThrow("`servers` must name at least one server, none came");
    expect(making({ client: "localhost:11211" })).toThrow(
      '`client` must be a client of memcache-client, "localhost:11211" came; write new MemcacheClient({ server: "host:11211" })',
    );
    const copies = { ...client, options: { server: { servers: [{ server: "a:1" }, { server: "b:1" }] } } };
    expect(making({ client: copies })).toThrow("`client` must be a client of one server, one of several came");
    expect(making({ servers: { a: client, b: null } })).toThrow("`servers.b` must be a client");
    expect(making({ client, maxEntryBytes: 5 })).toThrow(
      "`maxEntryBytes` must be a whole number of bytes, 1024 or more, 5 came",
    );
    for (const options of [{}, { client: 7 }])
      expect(making(options)).toThrow(expect.objectContaining({ code: "CACHED_OPTION_INVALID" }));
  });

  it("belongs to one prefix", () => {
    const store = memcachedStore(fakeServer());
    store.open({ wakeChannel: "a:wakeChannel", invalidationLog: "a:recent" }, () => undefined);
    expect(() => store.open({ wakeChannel: "b:wakeChannel", invalidationLog: "b:recent" }, () => undefined)).toThrow(
      "another `prefix`",
    );
  });

  it("reads keys and tags of one server in one trip", async () => {
    const { client, asked } = fakeServer();
    await memcachedStore({ client }).read(["a", "b"], ["t"]);
    expect(asked).toEqual([["a", "b", "t"]]);
  });

  it("gives names that memcached does not take another one, always the same", async () => {
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

  it("decides again when another was faster, and gives up when that has no end", async () => {
    const clock = new FakeClock();
    const races = { left: 0 };
    const { client, asked, table } = fakeServer((entries) => {
      if (races.left-- > 0) entries.set("k", { value: Buffer.from("theirs"), casUniq: `other ${races.left}` });
    });
    const store = memcachedStore({ client, clock, random: () => 0.5 });
    for (const lost of [3, 1_000]) {
      races.left = lost;
      table.set("k", { value: Buffer.from("theirs"), casUniq: "1" });
      asked.length = 0;
      const removed = store.invalidate(["k"]);
      removed.catch(() => undefined);
      await clock.advance(10_000);
      if (lost === 3) await removed;
      else await expect(removed).rejects.toThrow("others have changed it again and again");
      expect(asked).toHaveLength(lost === 3 ? 4 : 16);
    }
  });

  it("refuses a fill that an invalidation has overtaken between its read and its write", async () => {
    const state = { isOvertaken: false };
    const { client, table } = fakeServer((entries) => {
      if (state.isOvertaken) entries.delete("k");
    });
    const store = memcachedStore({ client });
    const [grant] = await store.acquire([leaseRequest("k")], TIMES);
    if (grant?.kind !== "granted") throw new Error("a grant was expected");
    state.isOvertaken = true;
    const { gen, grantedAt } = grant;
    const body = Buffer.from("old");
    const request = { key: "k", gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 1_000, ttlMs: 1_000, body };
    expect(await store.storeValues([request])).toEqual(["refused"]);
    expect(table.has("k")).toBe(false);
  });

  it("refuses a leaseRequest whose asker has given up, before it is written", async () => {
    const clock = new FakeClock();
    const { client, table } = fakeServer();
    const slow: MemcachedClient = {
      ...client,
      gets: (keys) => new Promise((resolve) => clock.after(600, () => resolve(client.gets(keys)))),
    };
    const late = memcachedStore({ client: slow, clock }).acquire([leaseRequest("k")], TIMES);
    await clock.advance(700);
    expect(await late).toEqual([{ kind: "expired" }]);
    expect(table.size).toBe(0);
  });

  it("keeps each name on one server, and moves no name that need not move", async () => {
    const servers = { a: fakeServer(), b: fakeServer(), c: fakeServer() };
    const names = Array.from({ length: 300 }, (_, nth) => `name:${nth}`);
    const three = memcachedStore({ servers: { a: servers.a.client, b: servers.b.client, c: servers.c.client } });
    await three.acquire(names.map(leaseRequest), TIMES);
    const sizes = Object.values(servers).map(({ table }) => table.size);
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBe(300);
    for (const size of sizes) expect(size).toBeGreaterThan(60);
    const two = memcachedStore({ servers: { c: servers.c.client, a: servers.a.client } });
    const found = (await two.read(names, [])).readings.filter((reading) => reading.kind === "read" && reading.entry);
    expect(found).toHaveLength(300 - servers.b.table.size);
  });
});
