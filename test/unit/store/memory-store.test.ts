import { FakeClock } from "@graphql-cached/testing";
import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { readHead, readLog, writeRecord } from "../../../src/core/store/clock-log.js";
import { originOf } from "../../support/clock-origin.js";

const TIMES = { leaseMs: 1_000, graceMs: 0, patienceMs: 0 };
const requestOf = (key: string) => ({ key, oldestPosition: 0, supersededAt: 0 });

it("keeps the memory store within maxBytes by dropping the least recently used entries", async () => {
  const store = memoryStore({ maxBytes: 4_000 });
  const keys = Array.from({ length: 20 }, (_, index) => `key${index}`);
  await store.acquire(keys.map(requestOf), TIMES, await originOf(store));
  const { readings } = await store.read(keys);
  const remaining = readings.filter((reading) => reading.kind === "read" && reading.entry !== undefined).length;
  expect(remaining).toBeGreaterThan(5);
  expect(remaining).toBeLessThan(15);
  expect(readings.at(-1)).toMatchObject({ entry: { state: "pending" } });
});

it("has no clock until one is asked for, and takes no memory for it", async () => {
  const before = process.memoryUsage().arrayBuffers;
  const stores = Array.from({ length: 20 }, () => memoryStore());
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
  for (const store of stores) {
    expect((await store.read([])).clock).toBeUndefined();
    expect(await store.readClock(0)).toBeUndefined();
  }
});

it("grants a lease under the epoch of its clock only, and at no later position than its head shows", async () => {
  const store = memoryStore({ clock: new FakeClock() });
  const acquire = async (origin: { epoch: string; position: number }) =>
    (await store.acquire([requestOf("k")], TIMES, origin))[0];
  expect(await acquire({ epoch: "an epoch", position: 1 })).toEqual({ kind: "expired" });
  const origin = await originOf(store);
  expect(await acquire({ ...origin, epoch: "no epoch" })).toEqual({ kind: "expired" });
  expect((await store.read(["k"])).readings).toMatchObject([{ entry: undefined }]);
  const later = { ...origin, position: origin.position + 1_000_000 };
  expect(await acquire(later)).toMatchObject({ kind: "granted", position: origin.position });
});

it("leaves the log that it has returned as it was", async () => {
  const store = memoryStore({ clock: new FakeClock() });
  const subjects = Array.from({ length: 10_000 }, (_, nth) => nth);
  for (let nth = 0; nth < 20; nth++) {
    const log = (await store.readClock(0)) ?? Buffer.alloc(0);
    const copy = Buffer.from(log);
    const head = readHead(await store.appendClock([writeRecord({ kind: "hard", subjects })]));
    expect(log.equals(copy)).toBe(true);
    expect(readLog(await store.readClock(0))?.records.at(-1)?.nonce).toBe(head?.nonce);
  }
});
