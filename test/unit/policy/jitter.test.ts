import { expect, it } from "vitest";
import { jittered } from "../../../src/core/policy/policy.js";

it("jitter shortens a lifetime by at most its ratio and never lengthens it", () => {
  expect([jittered(1_000, 0.1, 0), jittered(1_000, 0.1, 0.5), jittered(1_000, 0.1, 0.9999)]).toEqual([1_000, 950, 900]);
  expect(jittered(1_000, 0, 0.7)).toBe(1_000);
});
