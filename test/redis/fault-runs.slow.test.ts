import { describe, expect, it } from "vitest";
import { type Extent, runOnServers, SCENARIOS, type Scenario, violationsOf } from "../faults/scenarios.js";
import { compiledPath } from "../support/programs.js";

const EXTENT: Extent = { hits: 300, confirmed: 30, rounds: 2, calmReads: 200 };
const named = (name: string): Scenario => SCENARIOS.find((scenario) => scenario.name === name) as Scenario;

/** The short version of `node scripts/verify.mjs faults`, which runs every scenario for longer. */
describe("Real processes with default settings", () => {
  for (const [seed, name] of ["repeated messages", "chaos", "rotate credentials"].entries())
    it(`never read a value that was invalidated before they asked: ${name}`, async () => {
      const program = await compiledPath("test/faults/process.ts");
      const result = await runOnServers(named(name), EXTENT, { store: "redis", seed: seed + 1, processes: 2, program });
      expect(violationsOf(result, EXTENT), result.violations.join("\n")).toEqual([]);
      const hasChanges = name !== "rotate credentials";
      expect(result.changed > 0, "whether commands and messages were changed").toBe(hasChanges);
    }, 120_000);
});
