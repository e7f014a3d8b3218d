import { describe, expect, it } from "vitest";
import { UnconfirmedInvalidations } from "../../../src/tier/unconfirmed-invalidations.js";

describe("kept names", () => {
  it("are forgotten once they are confirmed, except those kept again meanwhile", () => {
    const kept = new UnconfirmedInvalidations();
    kept.keep({ keys: ["a", "b"], tags: ["t"] });
    const all = kept.all();
    kept.keep({ keys: ["b"], tags: [] });
    all.forget();
    expect(kept.has("a", [])).toBe(false);
    expect(kept.has("b", [])).toBe(true);
    expect(kept.has(undefined, ["t"])).toBe(false);
    expect(kept.size).toBe(1);
  });

  it("are bounded: the oldest go", () => {
    const kept = new UnconfirmedInvalidations();
    for (let nth = 0; nth < 10_001; nth++) kept.keep({ keys: [`key ${nth}`], tags: [] });
    expect(kept.size).toBe(10_000);
    expect(kept.has("key 0", [])).toBe(false);
    expect(kept.has("key 10000", [])).toBe(true);
  });
});
