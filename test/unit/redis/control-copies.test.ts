import { describe, expect, it } from "vitest";
import { ControlVersionReader, readControlVersion } from "../../../src/redis/control-copies.js";
import { nextControlVersion } from "../../../src/store/control-version.js";

const versionAt = (now: number, last: number): Buffer =>
  Buffer.from(nextControlVersion(now, Buffer.from([0, 0, 0, 0, 0, 0, 0, last]), undefined), "latin1");

describe("the reader of versions of the control record", () => {
  it("reads each version as one that is read alone, also if only its last byte has changed", () => {
    const reader = new ControlVersionReader();
    const versions = [versionAt(1_000, 1), versionAt(1_000, 2), versionAt(1_000, 2), versionAt(2_000, 2)];
    for (const version of [...versions, versions[0] as Buffer])
      expect(reader.read(version)).toBe(version.toString("latin1"));
  });

  it("does not keep the reply that a version was a part of", () => {
    const reader = new ControlVersionReader();
    const reply = Buffer.concat([versionAt(1_000, 1), Buffer.from("more")]);
    const version = reply.subarray(0, 16);
    const text = reader.read(version);
    version.fill(0xff);
    expect(reader.read(versionAt(1_000, 1))).toBe(text);
    expect(reader.read(version)).toBeUndefined();
  });

  it.each([
    ["nothing", null],
    ["no reply", undefined],
    ["an empty value", Buffer.alloc(0)],
    ["a value that is too long", Buffer.concat([versionAt(1_000, 1), Buffer.from([0])])],
    ["a value of the length of a version", Buffer.alloc(16, 0xff)],
  ])("takes %s for no version, before and after a version", (_, bytes) => {
    const reader = new ControlVersionReader();
    expect(reader.read(bytes)).toBeUndefined();
    reader.read(versionAt(1_000, 1));
    expect([reader.read(bytes), readControlVersion(bytes)]).toEqual([undefined, undefined]);
    expect(reader.read(versionAt(1_000, 1))).toBe(versionAt(1_000, 1).toString("latin1"));
  });

  it("takes sixteen zeros for what they are if nothing was read before", () => {
    const zeros = Buffer.alloc(16);
    expect(new ControlVersionReader().read(zeros)).toBe(readControlVersion(zeros));
  });
});
