import { setTimeout as pause } from "node:timers/promises";
import { type MemcachedClient, memcachedStore } from "@graphql-cached/memcached";
import type { Store } from "graphql-cached/store";
import { MemcacheClient } from "memcache-client";
import { afterAll, describe, expect, it } from "vitest";
import { sharedServer } from "../../../test/support/shared-servers.js";

const [{ host, port }] = await sharedServer("memcached");
const clients: MemcacheClient[] = [];
afterAll(() => {
  for (const client of clients) client.shutdown();
});

function connect(): MemcacheClient {
  const client = new MemcacheClient({ server: `${host}:${port}`, noDelay: true });
  clients.push(client);
  return client;
}

/** Far more than a run takes, even on a busy machine: it ends as soon as it has enough. */
const MAX_MS = 50_000;
const TIMES = { leaseMs: 30, graceMs: 1_000, patienceMs: 1_000 };
/** The stores are not opened for a cache, so they have no clock. */
const ORIGIN = { epoch: "an epoch", position: 1 };

interface Counts {
  stale: number;
  stored: number;
  hits: number;
}

/** Returns undefined if others have changed the key in each attempt, which a busy machine makes likely here. */
const unlessOvertaken = <T>(change: Promise<T>): Promise<T | undefined> =>
  change.catch((error: Error) => {
    expect(error.message).toContain("other processes changed the key concurrently");
    return undefined;
  });

/**
 * Loads, writes and reads one key through several stores concurrently, until `isEnough`. A value is
 * the version of the source from which it was loaded.
 */
async function stress(key: string, stores: readonly Store[], isEnough: (counts: Counts) => boolean): Promise<Counts> {
  const counts: Counts = { stale: 0, stored: 0, hits: 0 };
  const source = { version: 1, invalidated: 1 };
  const endsAt = performance.now() + MAX_MS;
  const during = async (act: () => Promise<void>): Promise<void> => {
    while (performance.now() < endsAt && !isEnough(counts)) await act();
  };
  const load = async (store: Store): Promise<void> => {
    const request = { key, oldestPosition: 0, supersededAt: 0 };
    const [grant] = (await unlessOvertaken(store.acquire([request], TIMES, ORIGIN))) ?? [];
    if (grant?.kind !== "granted") return pause(Math.random() * 2);
    const body = Buffer.from(String(source.version));
    await pause(Math.random() * 3);
    const { gen, grantedAt } = grant;
    const value = { key, gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 60_000, ttlMs: 60_000, body };
    if ((await unlessOvertaken(store.storeValues([value])))?.[0] === "stored") counts.stored++;
  };
  const write = async (store: Store): Promise<void> => {
    const version = ++source.version;
    if ((await unlessOvertaken(store.remove([key]).then(() => true))) === true)
      source.invalidated = Math.max(source.invalidated, version);
    await pause(Math.random() * 10);
  };
  const read = async (store: Store): Promise<void> => {
    const { invalidated } = source;
    const [reading] = (await store.read([key])).readings;
    if (reading?.kind !== "read" || reading.entry?.state !== "value") return;
    counts.hits++;
    if (Number(Buffer.from(reading.entry.body).toString()) < invalidated) counts.stale++;
  };
  await Promise.all(stores.flatMap((store) => [load, load, write, read].map((act) => during(() => act(store)))));
  return counts;
}

describe("A group of memcached stores that race for one key", () => {
  it("never returns a value that was loaded before the key was removed", async () => {
    const stores = [1, 2, 3].map(() => memcachedStore({ client: connect() }));
    const { stale, stored, hits } = await stress(
      "races:with-cas",
      stores,
      (counts) => counts.stored > 200 && counts.hits > 200,
    );
    expect(stored).toBeGreaterThan(200);
    expect(hits).toBeGreaterThan(200);
    expect(stale).toBe(0);
  }, 60_000);

  it("returns stale values without compare-and-set, which shows that this suite detects them", async () => {
    const stores = [1, 2, 3].map(() => memcachedStore({ client: withoutCas(connect()) }));
    expect((await stress("races:without-cas", stores, (counts) => counts.stale > 0)).stale).toBeGreaterThan(0);
  }, 60_000);
});

/** A client that writes without comparing. */
const withoutCas = (client: MemcacheClient): MemcachedClient => ({
  gets: (keys) => client.gets(keys),
  add: (key, value, { lifetime }) => client.set(key, value, { lifetime }),
  cas: (key, value, { lifetime }) => client.set(key, value, { lifetime }),
  cmd: (line) => client.cmd(line),
});
