import { describe, expect, it } from "vitest";
import type { EntryIdentity } from "../../../src/core/keys/key.js";
import {
  RecentInvalidations,
  UnconfirmedInvalidations,
} from "../../../src/core/tier/shared/unconfirmed-invalidations.js";

const keyOf = (digest: string, variantId = "v"): EntryIdentity => ({
  name: `gc:1:Query.a:${variantId}:${digest}`,
  coordinate: "Query.a",
  variantId,
  form: 1,
  digest,
});
const T = 7;
const NO_TAGS = { subjects: [] };
const keysOf = (...digests: string[]) => ({ keys: digests.map((digest) => keyOf(digest)), tags: [] });

describe("unconfirmed invalidations", () => {
  it("removes confirmed names, except those that were invalidated again in the meantime", () => {
    const unconfirmed = new UnconfirmedInvalidations();
    unconfirmed.add({ ...keysOf("a", "b"), tags: [T] });
    const snapshot = unconfirmed.snapshot();
    unconfirmed.add(keysOf("b"));
    snapshot.confirm();
    expect(unconfirmed.has(keyOf("a"), NO_TAGS)).toBe(false);
    expect(unconfirmed.has(keyOf("b"), NO_TAGS)).toBe(true);
    expect(unconfirmed.has(undefined, { subjects: [T] })).toBe(false);
    expect(unconfirmed.size).toBe(1);
  });

  it.each([
    ["keys", keysOf("a")],
    ["tags", { keys: [], tags: [T] }],
    ["a whole field", { keys: [], tags: [], coordinates: ["Query.a"] }],
    ["everything", { keys: [], tags: [], isClear: true }],
  ])("allow no reads without a look at the names until the invalidation of %s is confirmed", (_what, names) => {
    const unconfirmed = new UnconfirmedInvalidations();
    expect(unconfirmed.allowReads).toBe(true);
    unconfirmed.add(names);
    expect(unconfirmed.allowReads).toBe(false);
    expect(unconfirmed.has(keyOf("a"), { subjects: [T] })).toBe(true);
    unconfirmed.snapshot().confirm();
    expect(unconfirmed.allowReads).toBe(true);
    expect(unconfirmed.has(keyOf("a"), { subjects: [T] })).toBe(false);
  });

  it("holds back what contains an entry until its invalidation is confirmed that was made last", () => {
    const unconfirmed = new UnconfirmedInvalidations();
    const response = { ...keyOf("response"), coordinate: "responses" };
    const PART = 8;
    unconfirmed.add(keysOf("a"), [PART]);
    const snapshot = unconfirmed.snapshot();
    expect([PART, T].map((subject) => unconfirmed.has(response, { subjects: [subject] }))).toEqual([true, false]);
    expect(unconfirmed.snapshot()).toMatchObject({ keys: [keyOf("a")], tags: [] });
    unconfirmed.add(keysOf("a"), [PART]);
    snapshot.confirm();
    expect(unconfirmed.has(response, { subjects: [PART] })).toBe(true);
    unconfirmed.snapshot().confirm();
    expect([unconfirmed.has(response, { subjects: [PART] }), unconfirmed.allowReads]).toEqual([false, true]);
  });

  it("holds back an entry in every variant", () => {
    const unconfirmed = new UnconfirmedInvalidations();
    unconfirmed.add(keysOf("a"));
    expect(unconfirmed.has(keyOf("a", "another"), NO_TAGS)).toBe(true);
  });

  it("turns into a clear of everything beyond its limit, which holds back every read until it is confirmed", () => {
    const unconfirmed = new UnconfirmedInvalidations();
    for (let nth = 0; nth < 10_000; nth++) expect(unconfirmed.add(keysOf(`key ${nth}`))).toBe(false);
    expect(unconfirmed.add(keysOf("key 10000"))).toBe(true);
    expect(unconfirmed.size).toBe(1);
    expect([unconfirmed.has(keyOf("key 0"), NO_TAGS), unconfirmed.has(keyOf("other"), NO_TAGS)]).toEqual([true, true]);
    const early = unconfirmed.snapshot();
    expect(early).toMatchObject({ keys: [], tags: [], isClear: true });
    // Invalidated while the clear is under way, which may be too early to cover it.
    unconfirmed.add(keysOf("late"));
    early.confirm();
    expect(unconfirmed.has(keyOf("late"), NO_TAGS)).toBe(true);
    unconfirmed.snapshot().confirm();
    expect([unconfirmed.size, unconfirmed.has(keyOf("late"), NO_TAGS)]).toEqual([0, false]);
  });
});

describe("recent invalidations", () => {
  const [KEY, OTHER] = [keyOf("a"), { ...keyOf("b"), coordinate: "Query.b" }];
  const NONE = { keys: [], tags: [] };

  it.each([
    ["a key", keysOf("a")],
    ["a tag", { ...NONE, tags: [T] }],
    ["a whole field", { ...NONE, coordinates: ["Query.a"] }],
  ])("concern those who have read before what was invalidated by %s, and only those", (_what, names) => {
    const recent = new RecentInvalidations();
    const before = recent.count;
    expect(recent.hasChangedSince(before, KEY, [T], false)).toBe(false);
    recent.add(names);
    expect(recent.hasChangedSince(before, KEY, [T], false)).toBe(true);
    expect(recent.hasChangedSince(before, OTHER, [T + 1], false)).toBe(false);
    expect(recent.hasChangedSince(recent.count, KEY, [T], false)).toBe(false);
  });

  it("concern everything that was read before everything was invalidated", () => {
    const recent = new RecentInvalidations();
    recent.add({ ...NONE, isClear: true });
    expect([0, recent.count].map((count) => recent.hasChangedSince(count, OTHER, [], false))).toEqual([true, false]);
  });

  it("concern an entry whose tags are derived from its value whenever any tag was invalidated", () => {
    const recent = new RecentInvalidations();
    recent.add(keysOf("a"));
    expect(recent.hasChangedSince(0, OTHER, [], true)).toBe(false);
    recent.add({ ...NONE, tags: [T] });
    expect([true, false].map((has) => recent.hasChangedSince(0, OTHER, [], has))).toEqual([true, false]);
  });

  it("concern everything if there were more than can be held", () => {
    const recent = new RecentInvalidations();
    for (let nth = 0; nth < 10_000; nth++) recent.add(keysOf(`key ${nth}`));
    expect(recent.hasChangedSince(0, OTHER, [], false)).toBe(false);
    recent.add(keysOf("one more"));
    expect(recent.hasChangedSince(0, OTHER, [], false)).toBe(true);
  });
});
