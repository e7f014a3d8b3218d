import { describe, expect, it } from "vitest";
import { readControlVersion } from "../../../src/redis/control-copies.js";
import { nextControlVersion } from "../../../src/store/control-version.js";

const VERSION = Buffer.from(nextControlVersion(1_000, Buffer.from([0, 0, 0, 0, 0, 0, 0, 1]), undefined), "latin1");

describe("the version of a copy of the control record", () => {
  it("is read byte by byte", () => {
    expect(readControlVersion(VERSION)).toBe(VERSION.toString("latin1"));
  });

  it.each([
    ["nothing", null],
    ["no reply", undefined],
    ["an empty value", Buffer.alloc(0)],
    ["a value that is too long", Buffer.concat([VERSION, Buffer.from([0])])],
    ["a value of the length of a version that is none", Buffer.alloc(16, 0xff)],
  ])("is not read from %s", (_, bytes) => {
    expect(readControlVersion(bytes)).toBeUndefined();
  });
});
