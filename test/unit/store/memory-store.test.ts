import { memoryStore } from "graphql-cached";
import { expect, it } from "vitest";
import { NO_SIGNATURE } from "../../../src/store/entry.js";

it("keeps the memory store within maxBytes by dropping the least recently used entries", async () => {
  const store = memoryStore({ maxBytes: 4_000 });
  const keys = Array.from({ length: 20 }, (_, index) => `key${index}`);
  const requests = keys.map((key) => ({ key, signature: NO_SIGNATURE, supersededAt: 0 }));
  await store.acquire(requests, { leaseMs: 1_000, graceMs: 0, patienceMs: 0 });
  const { readings } = await store.read(keys, []);
  const remaining = readings.filter((reading) => reading.kind === "read" && reading.entry !== undefined).length;
  expect(remaining).toBeGreaterThan(5);
  expect(remaining).toBeLessThan(15);
  expect(readings.at(-1)).toMatchObject({ entry: { state: "pending" } });
});

it("keeps a bounded number of tag versions by dropping the least recently used ones", async () => {
  const store = memoryStore({ maxBytes: 3_000 });
  const tags = Array.from({ length: 30 }, (_, index) => `tag${index}`);
  for (const tag of tags) await store.ensureTags([tag], undefined);
  const { tagVersions } = await store.read([], tags);
  expect(tagVersions.map((version) => version !== undefined)).toEqual(tags.map((_, index) => index >= 20));
});

it("takes no memory for tags before there are any, so that creating a memory store is fast", () => {
  // The arrays of a list of 200,000 tags are counted here, and cannot be collected while the stores are in use.
  const before = process.memoryUsage().arrayBuffers;
  const stores = Array.from({ length: 20 }, () => memoryStore());
  expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(1_000_000);
  expect(stores.length).toBe(20);
});
