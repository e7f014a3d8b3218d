import { describe, expect, it } from "vitest";
import {
  isControlVersion,
  largerVersion,
  nextControlVersion,
  timeOfVersion,
} from "../../../src/store/control-version.js";

const unique = Buffer.from("12345678");

describe("the version of a control record", () => {
  it("is made at the given time, and is larger than the version it replaces although the clock went back", () => {
    const first = nextControlVersion(1_000, unique, undefined);
    expect(isControlVersion(first)).toBe(true);
    expect(timeOfVersion(first)).toBe(1_000);
    const second = nextControlVersion(500, Buffer.alloc(8), first);
    expect(second > first).toBe(true);
    expect(timeOfVersion(second)).toBe(1_000.001);
    expect(timeOfVersion(nextControlVersion(2_000, unique, second))).toBe(2_000);
  });

  it("counts if it is the largest of those that were read, in any order", () => {
    const [small, large] = [nextControlVersion(1_000, unique, undefined), nextControlVersion(1_001, unique, undefined)];
    expect([largerVersion(small, large), largerVersion(large, small)]).toEqual([large, large]);
    expect([largerVersion(undefined, small), largerVersion(small, undefined)]).toEqual([small, small]);
    expect(largerVersion(undefined, undefined)).toBeUndefined();
  });
});
