import { describe, expect, it } from "vitest";
import { Variants } from "../../../src/core/tier/shared/variants.js";

describe("Variants", () => {
  const variant = (id: string) => ({ id, form: 1 });

  it("have each variant of a coordinate once, in the order in which they were declared", () => {
    const variants = new Variants();
    for (const id of ["a", "b", "a"]) variants.declare("Query.top", variant(id));
    expect(variants.declared("Query.top").map(({ id }) => id)).toEqual(["a", "b"]);
    expect(variants.declared("Query.none")).toEqual([]);
  });

  it("know whether a coordinate has keys in another form", () => {
    const variants = new Variants();
    variants.declare("Query.top", variant("a"));
    expect([1, 2].map((form) => variants.hasOtherForm("Query.top", form))).toEqual([false, true]);
    variants.declare("Query.top", { id: "b", form: 2 });
    expect([1, 2].map((form) => variants.hasOtherForm("Query.top", form))).toEqual([true, true]);
    expect(variants.hasOtherForm("Query.none", 1)).toBe(false);
  });
});
