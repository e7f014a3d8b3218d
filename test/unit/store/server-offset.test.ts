import { describe, expect, it } from "vitest";
import { learnOffset, type ServerOffset } from "../../../src/core/store/server-offset.js";

describe("the estimated offset of a server's clock", () => {
  it("keeps the largest offset seen, since a reply can only be read late", () => {
    const first = learnOffset(undefined, 5_000, 1_000);
    expect(first).toEqual({ ms: 4_000, learnedAt: 1_000 });
    expect(learnOffset(first, 5_010, 1_110).ms).toBeCloseTo(3_999.89);
    expect(learnOffset(first, 5_300, 1_100).ms).toBe(4_200);
  });

  it("decays, so that it follows a clock that runs slower than the local one", () => {
    let known: ServerOffset = learnOffset(undefined, 4_000, 0);
    for (let now = 1_000; now <= 100_000; now += 1_000) known = learnOffset(known, 4_000 + now * 0.9995, now);
    expect(known.ms).toBeCloseTo(3_950);
  });
});
