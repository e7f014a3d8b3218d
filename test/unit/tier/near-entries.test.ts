import { describe, expect, it } from "vitest";
import { compilePolicy } from "../../../src/core/policy/policy.js";
import { NearEntries, type NearEntry } from "../../../src/core/tier/near/near-entries.js";

const { policy } = compilePolicy({ declared: [{ maxAge: 10 }], defaults: {} });

function entryOf(value: unknown, bytes: number): NearEntry {
  return {
    value,
    isDropped: false,
    promise: undefined,
    passed: undefined,
    isUsed: false,
    policy,
    certainUntilAt: 0,
    offsetMs: 0,
    readAt: 0,
    freshUntilAt: 0,
    grantedAt: 0,
    loadMs: 0,
    hint: undefined,
    subjects: [],
    epoch: "",
    position: 0,
    comparedAt: 0,
    bytes: 1,
    memoryBytes: bytes,
  };
}

function entriesWith(bounds: { maxBytes?: number; maxEntries?: number }) {
  const dropped: string[] = [];
  const entries = new NearEntries({ maxBytes: 1_000_000, maxEntries: 1_000, ...bounds });
  const all = new Map<NearEntry, string>();
  const noteDropped = (): void => {
    for (const [entry, key] of all)
      if (entry.isDropped) {
        dropped.push(key);
        all.delete(entry);
      }
  };
  const set = (key: string, bytes = 100): boolean => {
    const entry = entryOf(key, bytes);
    const isKept = entries.set(key, entry);
    noteDropped();
    if (isKept) all.set(entry, key);
    return isKept;
  };
  const use = (...keys: string[]): void => {
    for (const key of keys) (entries.get(key) as NearEntry).isUsed = true;
  };
  const kept = (...keys: string[]): string[] => keys.filter((key) => entries.get(key) !== undefined);
  return { entries, dropped, set, use, kept };
}

describe("the entries of a near cache", () => {
  it("pass over used ones once, and drop the oldest of the others", () => {
    const { dropped, set, use } = entriesWith({ maxEntries: 3 });
    for (const key of ["a", "b", "c"]) set(key);
    use("a", "b");
    set("d");
    expect(dropped).toEqual(["c"]);
    // The search goes on behind c, and begins again with a, which was not used since.
    use("d");
    set("e");
    use("e");
    set("f");
    expect(dropped).toEqual(["c", "a", "b"]);
  });

  it("drop one also if all were used, after a bounded search", () => {
    const { dropped, set, use } = entriesWith({ maxEntries: 500 });
    const keys = Array.from({ length: 500 }, (_, nth) => `k${nth}`);
    for (const key of keys) set(key);
    use(...keys);
    set("one more");
    expect(dropped).toEqual(["k100"]);
  });

  it("stay within their size, counting what is replaced and deleted only once", () => {
    const { entries, dropped, set, kept } = entriesWith({ maxBytes: 3 * 501 });
    for (const key of ["a", "b", "c", "a", "b"]) set(key);
    entries.delete("c");
    entries.delete("c");
    set("c");
    expect(kept("a", "b", "c")).toEqual(["a", "b", "c"]);
    expect(dropped).toEqual(["a", "b", "c"]);
    set("d", 200);
    expect(kept("a", "b", "c", "d")).toEqual(["c", "d"]);
    for (const key of ["c", "d"]) entries.delete(key);
    for (const key of ["a", "b", "c"]) set(key);
    expect(kept("a", "b", "c", "d")).toEqual(["a", "b", "c"]);
  });

  it("refuse one that is larger than all of them may be, and drop what it would have replaced", () => {
    const { dropped, set, kept } = entriesWith({ maxBytes: 1_000 });
    expect([set("a"), set("b"), set("a", 1_000)]).toEqual([true, true, false]);
    expect(dropped).toEqual(["a"]);
    expect(kept("a", "b")).toEqual(["b"]);
  });

  it("mark what they drop, and give its value away", () => {
    const { entries, set } = entriesWith({ maxEntries: 2 });
    const entryAt = (key: string): NearEntry => {
      set(key);
      return entries.get(key) as NearEntry;
    };
    const all = [entryAt("a"), entryAt("b"), entryAt("c"), entryAt("c")];
    for (const key of ["b", "c"]) entries.delete(key);
    expect(all.map(({ isDropped, value }) => [isDropped, value])).toEqual(Array(4).fill([true, undefined]));
  });
});
