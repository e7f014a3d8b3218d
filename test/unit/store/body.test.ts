import { describe, expect, it } from "vitest";
import { readBody, writeBody } from "../../../src/store/body.js";

describe("the body of an entry", () => {
  it("reads back the body it has written", () => {
    for (const body of [
      { input: "", resultTags: [], hint: undefined, value: Buffer.alloc(0) },
      { input: "e", resultTags: [], hint: { maxAge: 7, scope: "PRIVATE" as const }, value: Buffer.from("v") },
      {
        input: '["é"]',
        resultTags: [{ name: "gc:1:#x", version: "\u0000ÿ1234567890abcd" }],
        hint: undefined,
        value: Buffer.from([0, 255]),
      },
    ])
      expect(readBody(writeBody(body))).toEqual(body);
  });

  it("reads garbage and truncated bodies as undefined", () => {
    const whole = writeBody({
      input: "echo",
      resultTags: [{ name: "a", version: "b" }],
      hint: undefined,
      value: Buffer.from("text"),
    });
    expect(readBody(Buffer.from("garbage that is long enough"))).toBeUndefined();
    expect(readBody(whole.subarray(0, 4))).toBeUndefined();
    expect(readBody(whole.subarray(0, 14))).toBeUndefined();
    const damaged = Buffer.from(whole);
    damaged.write("{", 13);
    expect(readBody(damaged)).toBeUndefined();
  });
});
