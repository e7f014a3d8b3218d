import { describe, expect, it } from "vitest";
import { axisLabel, axisSteps, lastMinutes, servedWithoutLoad } from "../page/src/counts.js";

const none = {
  ...{ reads: 0, hit: 0, stale: 0, staleIfError: 0, loaded: 0, coalesced: 0, bypassed: 0 },
  ...{ bypassedOnPurpose: 0, loads: 0, failedLoads: 0 },
};

describe("the numbers of the inspector page", () => {
  it("has labels of an axis at equal steps that say equal numbers and reach the highest bar", () => {
    for (const max of [
      0, 1, 2, 3, 5, 7, 9, 10, 13, 47, 99, 100, 101, 999, 1_234, 5_001, 9_999, 10_001, 87_654, 999_999,
    ])
      for (const scale of [1, 1_000, 1_000_000]) {
        const steps = axisSteps(max * scale);
        const top = steps.at(-1) as number;
        expect(top).toBeGreaterThanOrEqual(Math.max(1, max * scale));
        expect(steps.length).toBeLessThanOrEqual(5);
        const said = steps.map((step) => Number(axisLabel(step, top).replaceAll(/[^\d.]/g, "")));
        const [, first = 0] = said;
        expect(said.map((value, nth) => Math.abs(value - nth * first) < 1e-9)).not.toContain(false);
        expect(steps.every(Number.isInteger)).toBe(true);
      }
    expect(axisSteps(2_310).map((step) => axisLabel(step, 3_000))).toEqual(["0", "1,000", "2,000", "3,000"]);
    expect(axisLabel(1_500_000, 2_000_000)).toBe("1.5 M");
  });

  it("counts hits, stale and coalesced reads as served without a load, of all that were not bypassed on purpose", () => {
    const counts = { ...none, reads: 20, hit: 5, stale: 1, coalesced: 2, staleIfError: 1, loaded: 1, bypassed: 10 };
    expect(servedWithoutLoad(counts)).toBe(8 / 20);
    expect(servedWithoutLoad({ ...counts, bypassedOnPurpose: 10 })).toBe(8 / 10);
    expect(servedWithoutLoad({ ...none, reads: 3, bypassed: 3, bypassedOnPurpose: 3 })).toBeUndefined();
  });

  it("shows ten minutes of the clock, also those without counts, and the newest of a server whose clock is ahead", () => {
    const now = Date.UTC(2026, 10, 28, 12, 0, 30);
    const at = (minute: number): string => new Date(Date.UTC(2026, 10, 28, 12, minute)).toISOString();
    const shown = lastMinutes([{ at: at(-3), count: { ...none, reads: 7 } }], now);
    expect(shown.map(({ count }) => count.reads)).toEqual([0, 0, 0, 0, 0, 0, 7, 0, 0, 0]);
    expect(new Date(shown.at(-1)?.at ?? 0).toISOString()).toBe(at(0));
    expect(lastMinutes([{ at: at(1), count: { ...none, reads: 2 } }], now).at(-1)?.count.reads).toBe(2);
  });
});
