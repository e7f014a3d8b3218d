import { describe, expect, it } from "vitest";
import { readBody, writeBody } from "../../../src/core/store/entry-layout.js";

/** Only its last 22 characters are stored. */
const KEY = { hash: "abcdefghijklmnopqrstuAbcdefghijklmnopqrstu1" };
const SUBJECTS = [1, 2 ** 52 - 1, 3];

describe("the body of an entry", () => {
  it("reads back the body it has written", () => {
    for (const body of [
      { subjects: [], hint: undefined, value: Buffer.alloc(0) },
      {
        subjects: [],
        hint: { maxAge: 7, scope: "PRIVATE" as const },
        value: Buffer.from("v"),
      },
      {
        subjects: SUBJECTS,
        hint: { maxAge: 7 },
        value: Buffer.from([0, 255]),
      },
      {
        subjects: [7],
        hint: undefined,
        freshness: { maxAgeMs: 7 },
        value: Buffer.from("v"),
      },
    ]) {
      const bytes = writeBody(body, KEY);
      const { value, ...parts } = body;
      expect(readBody(bytes, KEY)).toEqual({ freshness: undefined, ...parts, valueAt: bytes.length - value.length });
      expect(bytes.subarray(bytes.length - value.length)).toEqual(value);
    }
  });

  it("recognises a body of another key, whatever it holds", () => {
    const bytes = writeBody({ subjects: [], hint: undefined, value: Buffer.from("v") }, KEY);
    const { hash } = KEY;
    for (let at = 0; at < hash.length; at++) {
      const other = readBody(bytes, { hash: `${hash.slice(0, at)}-${hash.slice(at + 1)}` });
      if (at < 21) expect(other, `character ${at}`).toMatchObject({ valueAt: bytes.length - 1 });
      else expect(other, `character ${at}`).toBe("collision");
    }
  });

  it("reads garbage and truncated bodies as undefined", () => {
    const body = {
      subjects: [1],
      hint: { maxAge: 1 },
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
    for (const first of [3, 31, 39, 41, 48, 255]) {
      const ofOtherLayout = Buffer.from(whole);
      ofOtherLayout[0] = first;
      expect(readBody(ofOtherLayout, KEY), `first byte ${first}`).toBeUndefined();
    }
    const tooMany = Buffer.from(whole);
    tooMany.writeUInt32LE(24, tooMany.indexOf("}}") + 2);
    expect(readBody(tooMany, KEY)).toBeUndefined();
  });
});
