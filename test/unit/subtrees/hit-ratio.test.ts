import { describe, expect, it } from "vitest";
import {
  HITS_FOR,
  HitRatio,
  MIN_READS,
  PASSED,
  type SubtreeRead,
  TRIAL_READS,
} from "../../../src/core/subtrees/hit-ratio.js";

/** Sends `count` requests that come to `reads` in turn. Returns how many of them were admitted. */
function send(ratio: HitRatio, count: number, ...reads: readonly SubtreeRead[]): number {
  let admitted = 0;
  for (let nth = 0; nth < count; nth++) {
    if (!ratio.admits()) continue;
    ratio.add(reads[admitted % reads.length] as SubtreeRead);
    admitted++;
  }
  return admitted;
}

describe("the hit ratio of a selection", () => {
  it("admits every request until the first ones have shown whether the selection pays", () => {
    const ratio = new HitRatio();
    expect(send(ratio, MIN_READS, "new")).toBe(MIN_READS);
    expect(ratio.isPaying).toBe(false);
    expect(send(ratio, PASSED, "new")).toBe(0);
  });

  it("admits all requests of a selection whose hits pay for its builds", () => {
    const ratio = new HitRatio();
    const hits = Array.from({ length: HITS_FOR.rebuilt + 1 }, () => "hit" as const);
    expect(send(ratio, 20 * MIN_READS, ...hits, "rebuilt")).toBe(20 * MIN_READS);
  });

  it("ends with one hit too few for each two builds", () => {
    const ratio = new HitRatio();
    const reads = [
      "rebuilt",
      "rebuilt",
      ...Array.from({ length: 2 * HITS_FOR.rebuilt - 1 }, () => "hit" as const),
    ] as const;
    send(ratio, MIN_READS, ...reads);
    expect(ratio.isPaying).toBe(false);
  });

  it("counts a build of what was never stored less than one of what was invalidated", () => {
    const [fresh, changing] = [new HitRatio(), new HitRatio()];
    send(fresh, MIN_READS, "new", "hit");
    send(changing, MIN_READS, "rebuilt", "hit");
    expect(fresh.isPaying).toBe(true);
    expect(changing.isPaying).toBe(false);
  });

  it("tries a selection that did not pay again with requests that follow each other, so that they find entries", () => {
    const ratio = new HitRatio();
    send(ratio, MIN_READS, "rebuilt");
    send(ratio, PASSED, "rebuilt");
    expect(send(ratio, TRIAL_READS, "new", "hit")).toBe(TRIAL_READS);
    expect(ratio.isPaying).toBe(true);
  });

  it("admits one request of twenty of a selection that never pays", () => {
    const ratio = new HitRatio();
    send(ratio, MIN_READS, "rebuilt");
    expect(send(ratio, 10 * (PASSED + TRIAL_READS), "rebuilt")).toBe(10 * TRIAL_READS);
    expect((PASSED + TRIAL_READS) / TRIAL_READS).toBe(20);
  });

  it("forgets what was long ago, so that a selection which stops to pay is found out", () => {
    const ratio = new HitRatio();
    send(ratio, 100 * MIN_READS, "hit");
    expect(send(ratio, 10 * MIN_READS, "rebuilt")).toBeLessThan(2 * MIN_READS);
    expect(ratio.isPaying).toBe(false);
  });

  it("is not changed by reads that end after it has turned out not to pay", () => {
    const ratio = new HitRatio();
    send(ratio, MIN_READS, "rebuilt");
    for (let read = 0; read < 10 * MIN_READS; read++) ratio.add("hit");
    expect(ratio.admits()).toBe(false);
  });
});
