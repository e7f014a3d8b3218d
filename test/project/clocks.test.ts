import { expect, it } from "vitest";
import { filesIn, read } from "./source.js";

const CLOCKS =
  /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bsetTimeout\b|\bsetInterval\b|\bsetImmediate\b|\bperformance\.now\b/;

it("reads time and randomness through the Clock and Random ports only", () => {
  for (const file of filesIn("src").filter((name) => name !== "src/clock.ts")) {
    // The fake clock waits for real turns of the event loop, but reads no real time.
    const text = file === "src/testing/fake-clock.ts" ? read(file).replaceAll("setImmediate", "") : read(file);
    expect(CLOCKS.exec(text)?.[0], file).toBeUndefined();
  }
});
