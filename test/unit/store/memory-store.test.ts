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
