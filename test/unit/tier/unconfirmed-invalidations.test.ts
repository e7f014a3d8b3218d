import { FakeClock } from "graphql-cached/testing";
import { describe, expect, it } from "vitest";
import type { EntryIdentity } from "../../../src/tier/control-record.js";
import { RecentInvalidations } from "../../../src/tier/recent-invalidations.js";
import { UnconfirmedInvalidations } from "../../../src/tier/unconfirmed-invalidations.js";

const keyOf = (digest: string, variantId = "v"): EntryIdentity => ({
  name: `gc:1:Query.a:${variantId}:${digest}`,
  coordinate: "Query.a",
  variantId,
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
  it("are a clear of everything if there were more within a minute than can be held", async () => {
    const clock = new FakeClock();
    const recent = new RecentInvalidations(clock);
    for (let nth = 0; nth < 10_000; nth++) recent.add(keysOf(`key ${nth}`));
    expect(recent.names()).toMatchObject({ isClear: false, keys: { length: 10_000 } });
    recent.add(keysOf("one more"));
    expect(recent.names()).toEqual({ keys: [], softKeys: [], isClear: true });
    await clock.advance(60_000);
    expect(recent.names()).toEqual({ keys: [], softKeys: [], isClear: false });
  });

  it("are repeated for a minute, soft ones as soft, unless the key was invalidated hard since", async () => {
    const clock = new FakeClock();
    const recent = new RecentInvalidations(clock);
    const namesOf = () => {
      const { keys, softKeys } = recent.names();
      return { hard: keys.map(({ digest }) => digest), soft: softKeys.map(({ digest }) => digest) };
    };
    recent.add(keysOf("a", "b"), true);
    recent.add(keysOf("a"));
    await clock.advance(30_000);
    recent.add(keysOf("a", "c"), true);
    expect(namesOf()).toEqual({ hard: ["a"], soft: ["b", "c"] });
    recent.add(keysOf("d"));
    await clock.advance(29_999);
    expect(namesOf()).toEqual({ hard: ["a", "d"], soft: ["b", "c"] });
    await clock.advance(1);
    expect(namesOf()).toEqual({ hard: ["d"], soft: ["c"] });
    recent.add(keysOf("a"), true);
    expect(namesOf()).toEqual({ hard: ["d"], soft: ["c", "a"] });
    await clock.advance(30_000);
    expect(namesOf()).toEqual({ hard: [], soft: ["a"] });
  });
});
