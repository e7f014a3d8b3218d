/**
 * How much memory the near cache takes, against what it counts: node --expose-gc --import tsx bench/near-sizes.ts
 *
 * Prints for values of several shapes the bytes of heap for an entry, what the cache counts for it, and their ratio.
 */
import { randomBytes } from "node:crypto";
import { FakeClock } from "../packages/testing/src/index.js";
import { createKeySpace, type Key } from "../src/core/keys/key.js";
import { compilePolicy } from "../src/core/policy/policy.js";
import { NO_EPOCH } from "../src/core/store/entry.js";
import { NearCache } from "../src/core/tier/near/near-cache.js";
import { TagsBeforeLoad } from "../src/core/tier/request/request.js";
import { InvalidationClock } from "../src/core/tier/shared/invalidation-clock.js";
import { memoryStore } from "../src/stores/memory/memory-store.js";

const collectGarbage = globalThis.gc as (() => void) | undefined;
if (collectGarbage === undefined) throw new Error("run node with --expose-gc");

const text = (length: number): string =>
  randomBytes(Math.ceil(length / 2))
    .toString("hex")
    .slice(0, length);
const film = (id: number) => ({
  id: String(id),
  title: text(20),
  year: 1_900 + (id % 120),
  rating: id / 7,
  genre: "drama",
});
const SHAPES: Readonly<Record<string, (id: number) => unknown>> = {
  number: (id) => id,
  "number with a fraction": (id) => id / 7,
  null: () => null,
  "text of 10": () => text(10),
  "text of 1,000": () => text(1_000),
  "text of 1,000, not Latin-1": () => "日".repeat(10) + text(990),
  "object of 5": film,
  "object of 30": (id) =>
    Object.fromEntries(Array.from({ length: 30 }, (_, nth) => [`field${nth}`, nth % 2 ? text(8) : id])),
  "list of 20 numbers": (id) => Array.from({ length: 20 }, (_, nth) => id + nth),
  "list of 20 fractions": (id) => Array.from({ length: 20 }, (_, nth) => (id + nth) / 7),
  "list of 100 ids": () => Array.from({ length: 100 }, () => text(10)),
  "list of 20 objects": (id) => Array.from({ length: 20 }, (_, nth) => film(id + nth)),
  "nested 4 deep": (id) => ({
    ...film(id),
    director: { name: text(12), city: { name: text(8), country: { code: "FR" } } },
  }),
  "object of 4, other keys each": (id) => ({ [`a${id}`]: 1, [`b${id}`]: 2, [`c${id}`]: 3, [`d${id}`]: text(10) }),
  "object of 100 keys": () => Object.fromEntries(Array.from({ length: 100 }, () => [text(10), 1])),
  "object of 200 keys": () => Object.fromEntries(Array.from({ length: 200 }, () => [text(10), 1])),
  "object of 200 keys, the same ones": () =>
    Object.fromEntries(Array.from({ length: 200 }, (_, nth) => [`field${nth}`, 1])),
  "object of 2,000 keys": () => Object.fromEntries(Array.from({ length: 2_000 }, () => [text(10), 1])),
};

function heapUsed(): number {
  for (let round = 0; round < 4; round++) (collectGarbage as () => void)();
  const { heapUsed: heap, external } = process.memoryUsage();
  return heap + external;
}

const clock = new FakeClock();
const keys = createKeySpace("gc");
const { policy } = compilePolicy({ declared: [{ maxAge: 10 }], defaults: {} });

function measure(what: string, shape: (id: number) => unknown, tagsOf: (id: number) => readonly string[]): void {
  const { length } = JSON.stringify(shape(0));
  const count = Math.min(20_000, Math.ceil(20_000_000 / length));
  const before = heapUsed();
  const store = memoryStore({ clock });
  const invalidations = new InvalidationClock(store, keys.subjects, clock, () => 0.5);
  const settings = { maxBytes: 4e9, maxEntries: 1e6, isFrozen: true };
  const near = new NearCache({ clock, random: () => 0.5, store, invalidations, settings });
  for (let id = 0; id < count; id++) {
    const texts = tagsOf(id);
    // The text of a key in the store: the prefix, the variant and a digest.
    const name = Buffer.from(`{shop:${text(22)}}:e:${text(22)}`).toString("latin1");
    const body = JSON.stringify(shape(id));
    const request = {
      key: { name } as Key,
      policy,
      tags: new TagsBeforeLoad(texts, keys),
      load: () => undefined,
    };
    const entry = {
      state: "value" as const,
      isNegative: false,
      hasRefreshFailed: false,
      loadMs: 1.5,
      gen: "",
      untilAt: 0,
      freshUntilAt: 8_000.5,
      grantedAt: 1.5,

      epoch: NO_EPOCH,
      position: 0,
      body: Buffer.from(body),
    };
    const value: unknown = JSON.parse(body);
    near.put(request, entry, { value, hint: undefined, subjects: keys.tags(texts) }, 2.5, 0);
  }
  const used = (heapUsed() - before) / count;
  const { bytes, entries } = near.status;
  if (entries !== count) throw new Error(`${what}: ${entries} entries instead of ${count}`);
  const counted = bytes / count;
  console.log(
    `${what.padEnd(40)} ${String(length).padStart(7)} ${used.toFixed(0).padStart(8)} ${counted.toFixed(0).padStart(8)} ${(counted / used).toFixed(2).padStart(6)}`,
  );
}

console.log(`${"value".padEnd(40)} ${"JSON".padStart(7)} ${"heap".padStart(8)} ${"counted".padStart(8)} ratio`);
for (const [what, shape] of Object.entries(SHAPES)) measure(what, shape, () => []);
for (const [what, tagsOf] of Object.entries({
  "object of 5, 1 shared tag": () => ["Films"],
  "object of 5, 1 tag of its own": (id: number) => [`Film:${id}`],
  "object of 5, 3 tags of its own": (id: number) => [`Film:${id}`, `Director:${id}`, `Studio:${id}`],
}))
  measure(what, film, tagsOf);
