import { expect, it } from "vitest";
import { readTagVersion } from "../../../src/redis/tag-version.js";

it("what is at the key of a tag is a version, a write until its mark ends, or nothing", () => {
  const version = Buffer.from(`\u0000\u001f${"v".repeat(14)}`, "latin1");
  expect(readTagVersion(version, 1_000)).toBe(version.toString("latin1"));
  for (const other of ["", "v".repeat(16), `\u0000\u0020${"v".repeat(14)}`, "v".repeat(72)])
    expect(readTagVersion(Buffer.from(other, "latin1"), 1_000)).toBeUndefined();
  const mark = Buffer.alloc(44);
  mark.write("g\u0002T", "latin1");
  mark.writeDoubleLE(2_000, 12);
  expect(readTagVersion(mark, 1_999)).toBe("write-in-progress");
  expect(readTagVersion(mark, 2_000)).toBeUndefined();
  mark.write("V", 2, "latin1");
  expect(readTagVersion(mark, 1_999)).toBeUndefined();
});
