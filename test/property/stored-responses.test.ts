import { print } from "graphql";
import { afterEach, describe, expect, it, vi } from "vitest";
import { ContextWatch } from "../../src/core/loader/context-watch.js";
import { partsOf } from "../../src/core/parts.js";
import { CollectedParts } from "../../src/core/responses/collected-parts.js";
import { OperationPlanner } from "../../src/core/responses/operation-plan.js";
import { differences, type Process } from "./random-responses.js";

/** How many different queries are asked. */
const QUERIES = Number(process.env.PROPERTY_RUNS ?? 3) * 40;

/** Replaces a part of the key of responses by nothing. */
const withoutPart =
  (part: number) =>
  ({ cache }: Process): void => {
    const { keys } = partsOf(cache, "test");
    const { entry } = keys;
    keys.entry = (input, variantId) => {
      if (input.kind !== "response") return entry(input, variantId);
      const parts = JSON.parse(input.parts) as unknown[];
      parts[part] = null;
      return entry({ ...input, parts: JSON.stringify(parts) }, variantId);
    };
  };

describe("stored responses", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  it("equal those without a cache, for random schemas, queries, callers and changes, in two processes", async () => {
    const { asked, differing, hits, first } = await differences(2026, QUERIES);
    if (process.env.PROPERTY_RUNS !== undefined) console.log({ asked, differing, hits });
    expect(first).toBe("");
    expect(differing).toBe(0);
    expect(hits).toBeGreaterThan(asked / 20);
  }, 600_000);

  const CONTROL = 400;
  const differ = async (prepare?: (process: Process) => void): Promise<void> => {
    const { differing } = await differences(8, CONTROL, prepare, undefined, true);
    expect(differing).toBeGreaterThan(0);
  };
  it.each([
    ["variables", withoutPart(4)],
    ["the text of the operation", withoutPart(0)],
    ["the values of the context", withoutPart(3)],
    [
      "the identity of the caller",
      ({ cache }: Process): void => {
        const { keys } = partsOf(cache, "test");
        const { entry } = keys;
        keys.entry = (input, variantId) =>
          entry(input.kind === "response" ? { ...input, identity: undefined } : input, variantId);
      },
    ],
  ])("differ if their keys leave out %s", (_what, prepare) => differ(prepare), 120_000);

  it("differ if what an execution reads of the context is not watched", async () => {
    vi.spyOn(ContextWatch.prototype, "collect").mockReturnValue(() => []);
    await differ();
  }, 120_000);

  it("differ if their keys leave out the fragments of the operation", async () => {
    const { plan } = OperationPlanner.prototype;
    vi.spyOn(OperationPlanner.prototype, "plan").mockImplementation(function (this: OperationPlanner, ...args) {
      const made = plan.apply(this, args);
      return made && { ...made, digest: print(made.operation) };
    });
    await differ();
  }, 120_000);

  it("differ if they lack the tags of what was read", async () => {
    vi.spyOn(CollectedParts.prototype, "subjects").mockReturnValue([]);
    await differ();
  }, 120_000);

  it("differ if they are shared although a part is PRIVATE", async () => {
    const { add } = CollectedParts.prototype;
    vi.spyOn(CollectedParts.prototype, "add").mockImplementation(function (
      this: CollectedParts,
      coordinate,
      report,
      key,
    ) {
      const subjects = "subjects" in report ? report.subjects : [];
      add.call(this, coordinate, { ...report, subjects, isPrivate: false }, key);
    });
    const { plan } = OperationPlanner.prototype;
    vi.spyOn(OperationPlanner.prototype, "plan").mockImplementation(function (this: OperationPlanner, ...args) {
      const made = plan.apply(this, args);
      return made && { ...made, isPrivate: false };
    });
    await differ();
  }, 120_000);
});
