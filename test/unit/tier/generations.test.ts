import { describe, expect, it } from "vitest";
import type { Key } from "../../../src/core/keys/key.js";
import { isRemembered, KnownKey, type Memo, Memos } from "../../../src/core/tier/request/known-key.js";
import { NO_TAGS } from "../../../src/core/tier/request/tags.js";

/** What a row and a key take without a value, for inputs of one character. */
const EMPTY_BYTES = 602;

function generationsOf(maxBytes: number) {
  const memos = new Memos(maxBytes);
  const memo = memos.of("films");
  const slot = memo.slotOf("title");
  const remember = (input: string, of: Memo = memo, at = slot): KnownKey => {
    const row = of.row(input);
    const known = row.keys[at] ?? new KnownKey({ name: input } as Key, NO_TAGS, row);
    if (row.keys[at] === undefined) of.remember(known, at);
    return known;
  };
  /** Keeps a value of so many bytes, as the memory does. */
  const keep = (known: KnownKey, bytes: number): void => {
    known.until = 1;
    known.value = known.key.name;
    known.kept = { bytes } as KnownKey["kept"];
    memos.grow(bytes, known.row);
  };
  const set = (input: string, bytes = 0): KnownKey => {
    const known = remember(input);
    if (bytes > 0) keep(known, bytes);
    return known;
  };
  return { memos, memo, slot, remember, keep, set };
}

describe("The generations of what is remembered", () => {
  it("keep one object for a key as long as it is used, and forget what was not used while another generation filled up", () => {
    const { set, remember } = generationsOf(10 * EMPTY_BYTES);
    const [used, unused] = [set("a"), set("b")];
    for (let nth = 0; nth < 20; nth++) {
      remember(String.fromCharCode(200 + nth));
      expect(remember("a")).toBe(used);
    }
    expect(remember("b")).not.toBe(unused);
    expect([isRemembered(used), isRemembered(unused)]).toEqual([true, false]);
  });

  it("give the values of forgotten keys away, although somebody still has the keys", () => {
    const { set } = generationsOf(10 * EMPTY_BYTES);
    const known = set("a", 100);
    for (let nth = 0; nth < 20; nth++) set(String.fromCharCode(200 + nth));
    expect([known.until, known.value, known.kept]).toEqual([0, undefined, undefined]);
  });

  it("never take more than their bytes, whatever is added, used again, replaced and dropped", () => {
    const maxBytes = 50_000;
    const { memos, set, remember, keep } = generationsOf(maxBytes);
    const inFlight: KnownKey[] = [];
    let seed = 7;
    const random = (below: number): number => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % below;
    };
    for (let nth = 0; nth < 5_000; nth++) {
      const known = set(String.fromCharCode(200 + random(300)));
      inFlight.push(known);
      // Its value comes later, when its row may be old, or forgotten.
      const earlier = inFlight[random(inFlight.length)] as KnownKey;
      if (isRemembered(earlier) && earlier.kept === undefined) keep(earlier, random(maxBytes / 8));
      if (random(3) === 0) remember(String.fromCharCode(200 + random(300)));
      expect(memos.bytes).toBeLessThanOrEqual(maxBytes);
      expect(memos.bytes).toBeGreaterThanOrEqual(0);
    }
  });

  it("take no more for values that come after their rows have become old", () => {
    const { memos, set, keep } = generationsOf(20 * EMPTY_BYTES);
    const known = Array.from({ length: 15 }, (_, nth) => set(String.fromCharCode(200 + nth)));
    for (const one of known) if (isRemembered(one)) keep(one, 2 * EMPTY_BYTES);
    expect(memos.bytes).toBeLessThanOrEqual(20 * EMPTY_BYTES);
  });

  it("count a key that replaces another one once", () => {
    const { memos, memo, slot, set } = generationsOf(100_000);
    const earlier = set("a", 500);
    const { row } = earlier;
    const later = new KnownKey({ name: "later" } as Key, NO_TAGS, row);
    memo.remember(later, slot);
    expect(memos.bytes).toBe(EMPTY_BYTES);
    expect([isRemembered(earlier), earlier.kept, memo.row("a").keys[slot]]).toEqual([false, undefined, later]);
  });

  it("keep the fields of one parent in one row, and those of others apart", () => {
    const { memos, memo, slot, remember, set } = generationsOf(100_000);
    const title = set("a");
    const cast = remember("a", memos.of("films"), memo.slotOf("cast"));
    const ofActor = remember("a", memos.of("actors"), memos.of("actors").slotOf("title"));
    expect([cast.row === title.row, ofActor.row === title.row]).toEqual([true, false]);
    expect(memo.row("a").keys[slot]).toBe(title);
  });

  it("do not remember long inputs", () => {
    const { memos, remember } = generationsOf(100_000);
    const long = "x".repeat(513);
    expect(isRemembered(remember("x".repeat(512)))).toBe(true);
    const before = memos.bytes;
    expect([isRemembered(remember(long)), memos.bytes]).toEqual([false, before]);
    expect(remember("a").row).not.toBe(remember(long).row);
  });
});
