import { describe, expect, it } from "vitest";
import { Variants } from "../../../src/tier/variants.js";

describe("Variants", () => {
  const first = { id: "a", keyForm: "f" };

  it("count each variant once, in the order in which they were declared", () => {
    const variants = new Variants();
    for (const variant of [first, { id: "b", keyForm: "f" }, first]) variants.declare("Query.top", variant, 1_000);
    variants.declare("Query.other", first, 1_000);
    expect(variants.count).toBe(3);
    expect(variants.declared("Query.top").map(({ id }) => id)).toEqual(["a", "b"]);
    expect(variants.all()).toHaveLength(3);
  });

  it("have the longest life of all declarations, where undefined is for ever", () => {
    const variants = new Variants();
    const lifeMs = (): number | undefined => variants.declared("Query.top")[0]?.lifeMs;
    for (const declared of [1_000, 3_000, 2_000]) variants.declare("Query.top", first, declared);
    expect(lifeMs()).toBe(3_000);
    for (const declared of [undefined, 2_000]) variants.declare("Query.top", first, declared);
    expect(lifeMs()).toBeUndefined();
  });
});
