import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { Durations, percentileOf } from "../../../src/core/telemetry/counters.js";

/** The worst ratio between a percentile and the truth: half a bucket, which is an eighth of an octave. */
const WORST = 2 ** (1 / 8) + 1e-9;

describe("percentiles of durations", () => {
  it("are within 9.1 % of the true ones, or within an eighth of a millisecond", () => {
    const duration = fc.double({ min: 0, max: 1e7, noNaN: true });
    fc.assert(
      fc.property(fc.array(duration, { minLength: 1 }), fc.constantFrom(0.5, 0.9, 0.99, 1), (all, share) => {
        const durations = new Durations();
        for (const ms of all) durations.add(ms);
        const sorted = [...all].sort((a, b) => a - b);
        const truth = sorted[Math.max(1, Math.ceil(share * all.length)) - 1] as number;
        const shown = percentileOf(durations.buckets, share) as number;
        if (truth <= 0.125) expect(shown).toBe(0.125);
        else expect(Math.max(shown / truth, truth / shown)).toBeLessThanOrEqual(WORST);
      }),
    );
  });

  it("of no durations are undefined", () => {
    expect(percentileOf(new Durations().buckets, 0.5)).toBeUndefined();
  });
});
