import { describe, expect, it } from "vitest";
import { UnconfirmedInvalidations } from "../../../src/tier/unconfirmed-invalidations.js";

describe("unconfirmed invalidations", () => {
  it("removes confirmed names, except those that were invalidated again in the meantime", () => {
    const unconfirmed = new UnconfirmedInvalidations();
    unconfirmed.add({ keys: ["a", "b"], tags: ["t"] });
    const snapshot = unconfirmed.snapshot();
    unconfirmed.add({ keys: ["b"], tags: [] });
    snapshot.confirm();
    expect(unconfirmed.has("a", [])).toBe(false);
    expect(unconfirmed.has("b", [])).toBe(true);
    expect(unconfirmed.has(undefined, ["t"])).toBe(false);
    expect(unconfirmed.size).toBe(1);
  });

  it("drops the oldest names beyond its limit", () => {
    const unconfirmed = new UnconfirmedInvalidations();
    for (let nth = 0; nth < 10_001; nth++) unconfirmed.add({ keys: [`key ${nth}`], tags: [] });
    expect(unconfirmed.size).toBe(10_000);
    expect(unconfirmed.has("key 0", [])).toBe(false);
    expect(unconfirmed.has("key 10000", [])).toBe(true);
  });
});
