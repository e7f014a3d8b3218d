import { describe, expect, it } from "vitest";
import {
  combinedSoftVersion,
  combinedVersion,
  readBody,
  readTagNames,
  resultTagsOf,
  writeBody,
  writeTagNames,
} from "../../../src/store/body.js";

const VERSION = "\u0000ÿ1234567890abcd";
const SOFT = "\u0000ÿ123456";
/** Only its last 22 characters are stored. */
const KEY = { hash: "abcdefghijklmnopqrstuAbcdefghijklmnopqrstu1" };
const NAMES = ["gc:1:#x7", "gc:1:#x8", "gc:1:#y"];

describe("the body of an entry", () => {
  it("reads back the body it has written", () => {
    for (const body of [
      { resultTags: undefined, hint: undefined, softSignature: "", value: Buffer.alloc(0) },
      {
        resultTags: undefined,
        hint: { maxAge: 7, scope: "PRIVATE" as const },
        softSignature: SOFT,
        value: Buffer.from("v"),
      },
      {
        resultTags: resultTagsOf(NAMES, [VERSION, VERSION, VERSION]),
        hint: { maxAge: 7 },
        softSignature: "",
        value: Buffer.from([0, 255]),
      },
      {
        resultTags: resultTagsOf(NAMES, [VERSION, VERSION + VERSION, VERSION]),
        hint: undefined,
        freshness: { maxAgeMs: 7 },
        softSignature: SOFT,
        value: Buffer.from("v"),
      },
    ]) {
      const bytes = writeBody(body, KEY);
      const { value, ...parts } = body;
      expect(readBody(bytes, KEY)).toEqual({ freshness: undefined, ...parts, valueAt: bytes.length - value.length });
      expect(bytes.subarray(bytes.length - value.length)).toEqual(value);
    }
  });

  it("tells a body of another key, whatever it holds", () => {
    const bytes = writeBody(
      { resultTags: undefined, hint: undefined, softSignature: "", value: Buffer.from("v") },
      KEY,
    );
    const { hash } = KEY;
    for (let at = 0; at < hash.length; at++) {
      const other = readBody(bytes, { hash: `${hash.slice(0, at)}-${hash.slice(at + 1)}` });
      if (at < 21) expect(other, `character ${at}`).toMatchObject({ softSignature: "" });
      else expect(other, `character ${at}`).toBe("collision");
    }
  });

  it("reads garbage and truncated bodies as undefined", () => {
    const body = {
      resultTags: resultTagsOf(["a"], [VERSION]),
      hint: { maxAge: 1 },
      softSignature: SOFT,
      value: Buffer.from("text"),
    };
    const whole = writeBody(body, KEY);
    const valueAt = whole.length - body.value.length;
    expect(readBody(Buffer.from("garbage that is long enough"), KEY)).toBeUndefined();
    for (let length = 0; length < valueAt; length++)
      expect(readBody(whole.subarray(0, length), KEY), `${length} bytes`).toBeUndefined();
    const damaged = Buffer.from(whole);
    damaged.write("}", damaged.indexOf("{"));
    expect(readBody(damaged, KEY)).toBeUndefined();
    for (const first of [3, 31, 40, 255]) {
      const ofOtherLayout = Buffer.from(whole);
      ofOtherLayout[0] = first;
      expect(readBody(ofOtherLayout, KEY), `first byte ${first}`).toBeUndefined();
    }
    const withoutNames = Buffer.from(whole);
    withoutNames.writeUInt32LE(24, withoutNames.indexOf("}") + 1);
    expect(readBody(withoutNames, KEY)).toBeUndefined();
  });

  it("keeps the names of tags exactly, and their common beginning once", () => {
    for (const names of [NAMES, ["a"], ["a", "b"], ["a", "ab"], ["ab", "a"], ["a", "a"]])
      expect(readTagNames(writeTagNames(names))).toEqual(names);
    const names = Array.from({ length: 1_000 }, (_, index) => `shop:1:#${String(index).padStart(22, "0")}`);
    expect(writeTagNames(names).length).toBeLessThan(24 * names.length);
  });

  it("combines the versions of tags into one that differs if any of them does", () => {
    const other = "\u0001ÿ1234567890abcd";
    const all = [[VERSION, VERSION], [VERSION, other], [other, VERSION], [VERSION]].map(combinedVersion);
    expect(new Set(all).size).toBe(4);
    expect(all.map((version) => version?.length)).toEqual([16, 16, 16, 16]);
    expect(combinedVersion([VERSION, undefined])).toBeUndefined();
    expect(combinedVersion([VERSION, "write-in-progress"])).toBeUndefined();
  });

  it("combines the soft parts of versions apart from the hard ones, and into nothing without a soft invalidation", () => {
    const soft = VERSION + VERSION;
    expect(combinedVersion([VERSION, soft])).toBe(combinedVersion([VERSION, VERSION]));
    expect([combinedSoftVersion([]), combinedSoftVersion([VERSION, VERSION])]).toEqual(["", ""]);
    const all = [
      [VERSION, soft],
      [soft, VERSION],
      [soft, soft],
    ].map((versions) => combinedSoftVersion(versions));
    all.push(combinedSoftVersion([], "scope"), combinedSoftVersion([soft, soft], "scope"));
    expect(new Set(all).size).toBe(5);
    expect(all.map(({ length }) => length)).toEqual([8, 8, 8, 8, 8]);
  });
});
