import { expect, it } from "vitest";
import { bloomOffsets, bloomSize } from "../src/bloom-guard.js";

it("a filter has the size that its capacity and ratio need, unless that exceeds a Redis string", () => {
  expect(bloomSize(5_000, 0.02)).toEqual({ bits: 40_712, bitsPerId: 6 });
  expect(bloomSize(440_000_000, 0.01)?.bits).toBeLessThan(2 ** 32);
  expect(bloomSize(450_000_000, 0.01)).toBeUndefined();
});

it("the bits of an id are spread over the filter, and are others for another id", () => {
  const size = { bits: 1_000_003, bitsPerId: 6 };
  const offsets = bloomOffsets("number:7", size);
  expect(new Set([...offsets, ...bloomOffsets("string:7", size)]).size).toBe(12);
  expect(offsets.every((offset) => offset >= 0 && offset < size.bits)).toBe(true);
  expect(bloomOffsets("number:7", size)).toEqual(offsets);
});
