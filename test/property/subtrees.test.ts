import { afterEach, describe, expect, it, vi } from "vitest";
import { coercedVariables } from "../../src/core/base/graphql-version.js";
import { CollectedParts } from "../../src/core/collected-parts.js";
import { Selections } from "../../src/core/directive/look-ahead/selection.js";
import { partsOf } from "../../src/core/parts.js";
import { SelectedTypes } from "../../src/core/subtrees/selection-plan.js";
import { differences, misplacedHoles, type Process } from "./random-subtrees.js";

/** How many different queries are asked: 375, and 5,000 by `npm run verify`. */
const QUERIES = Math.max(Number(process.env.PROPERTY_RUNS ?? 3), 3) * 125;
const SEED = Number(process.env.PROPERTY_SEED ?? 2026);

describe("answers with subtrees", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("equal those without a cache, for random schemas, queries, callers and changes, in two processes", async () => {
    const { first, differing, asked, outcomes, skipped } = await differences({ seed: SEED, queries: QUERIES });
    if (process.env.PROPERTY_RUNS !== undefined) console.log({ asked, differing, outcomes, skipped });
    expect(first).toBe("");
    expect(differing).toBe(0);
    // Answers that subtrees had no part in would prove nothing.
    expect(outcomes.hit).toBeGreaterThan(asked / 10);
    for (const outcome of ["stale", "loaded", "coalesced"])
      expect(outcomes[outcome], outcome).toBeGreaterThan(asked / 100);
    for (const reason of ["LIST_WITHOUT_ID", "CONTEXT_READ", "ERRORS", "UNSTORABLE"]) expect(skipped).toContain(reason);
  }, 600_000);

  it("equal those without a cache where the objects of lists are entries", async () => {
    const { first, differing, asked, outcomes, skipped } = await differences({
      seed: SEED,
      queries: Math.max(QUERIES / 5, 250),
      listsAreEntries: true,
    });
    if (process.env.PROPERTY_RUNS !== undefined) console.log({ asked, differing, outcomes, skipped });
    expect(first).toBe("");
    expect(differing).toBe(0);
    for (const outcome of ["hit", "loaded"]) expect(outcomes[`object ${outcome}`], outcome).toBeGreaterThan(asked / 50);
    expect(skipped).toContain("HOLE");
  }, 600_000);

  /** Where a part is broken, few queries are needed to see it: each search begins at a schema that shows it. */
  const CONTROL = 3_000;
  const differ = async (seed: number, prepare: (process: Process) => void = () => undefined): Promise<void> => {
    const { differing } = await differences({ seed, queries: CONTROL, prepare, endsAtFirst: true });
    expect(differing).toBeGreaterThan(0);
  };

  it("differ if their keys leave out the variables below the field", async () => {
    const { textOf } = Selections.prototype;
    vi.spyOn(Selections.prototype, "textOf").mockImplementation(function (this: Selections, info) {
      const none = Object.fromEntries(Object.keys(coercedVariables(info.variableValues)).map((name) => [name, 0]));
      return textOf.call(this, {
        ...info,
        variableValues: { ...info.variableValues, ...none, coerced: none } as never,
      });
    });
    await differ(2_005);
  }, 120_000);

  it("differ if their keys leave out the values of the context that cached fields below depend on", async () => {
    await differ(2_002, ({ cache }) => {
      const { keys } = partsOf(cache, "test");
      const { entry } = keys;
      keys.entry = (input, variant) => {
        if (input.kind !== "subtree") return entry(input, variant);
        return entry({ ...input, parts: input.parts.replace(/\b(en|de)\b/g, "") }, variant);
      };
    });
  }, 120_000);

  it("differ if they lack the tags of what was read from the cache while they were built", async () => {
    const { add } = CollectedParts.prototype;
    vi.spyOn(CollectedParts.prototype, "add").mockImplementation(function (this: CollectedParts, ...args) {
      if (args[1].outcome !== "hit") add.apply(this, args);
    });
    await differ(2_022);
  }, 120_000);

  it("differ if fields that are not cached are parts of them", async () => {
    vi.spyOn(SelectedTypes.prototype, "isHole").mockReturnValue(false);
    await differ(2_000);
  }, 120_000);

  it("have the holes of the objects that they show, although the objects change without an invalidation", async () => {
    const { misplaced, filled } = await misplacedHoles(SEED, 600);
    expect(misplaced).toBe(0);
    expect(filled).toBeGreaterThan(600);
  });

  it("have holes of other objects if ids are not compared", async () => {
    vi.spyOn(SelectedTypes.prototype, "identified").mockReturnValue([]);
    vi.spyOn(SelectedTypes.prototype, "isIdentified").mockReturnValue(true);
    expect((await misplacedHoles(SEED, 100)).misplaced).toBeGreaterThan(0);
  });
});
