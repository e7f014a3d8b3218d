import { expect, it } from "vitest";
import { filesIn, read } from "./source.js";

const CLOCKS =
  /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bsetTimeout\b|\bsetInterval\b|\bsetImmediate\b|\bperformance\.now\b|\bqueueMicrotask\b|\bnextTick\b/;

/** The clock itself, and what runs in a browser. */
const EXCEPT = [
  "src/core/base/clock.ts",
  "packages/inspector/src/generated/inspector-page.ts",
  "packages/testing/src/fake-clock.ts",
];

it("reads time and randomness through the Clock and Random ports only", () => {
  const inPackages = filesIn("packages").filter((name) => /^packages\/[\w-]+\/src\//.test(name));
  for (const file of [...filesIn("src"), ...inPackages].filter((name) => !EXCEPT.includes(name)))
    expect(CLOCKS.exec(read(file))?.[0], file).toBeUndefined();
});
