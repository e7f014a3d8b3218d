import { describe, expect, it } from "vitest";
import { filesIn, read } from "./source.js";

const files = [...filesIn("test", ".test.ts"), ...filesIn("examples", ".test.ts")];

describe("a test file", () => {
  it("runs all its tests, asserts something, and titles them as sentences of the manual", () => {
    for (const file of files) {
      const text = read(file);
      expect(text, file).toContain("expect(");
      expect(text, file).not.toMatch(/\b(it|describe)\.(only|skip|todo)\b/);
      for (const [, title] of text.matchAll(/\b(?:it|describe)\((["'`])(.*?)\1/g))
        expect(title, file).not.toMatch(/\bshould\b|\bworks\b|#\d/);
    }
  });

  it("of a promise or a unit never sleeps", () => {
    const timeless = files.filter((file) => file.startsWith("test/unit") || file.startsWith("test/behaviour"));
    for (const file of timeless) expect(read(file), file).not.toMatch(/\bsetTimeout\b|timers\/promises|\bsleep\(/);
  });
});
