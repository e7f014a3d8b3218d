import { describe, expect, it } from "vitest";
import { filesIn, read } from "./source.js";

const files = [...filesIn("test", ".test.ts"), ...filesIn("examples", ".test.ts")];

/** The first string after every `it` and `describe`, also after `it.each(…)`, where it stands on a line of its own as well. */
function titlesOf(text: string): string[] {
  const titles = text.matchAll(
    /(?<![.\w])(?:it|test|describe)\b(?:\.\w+)*(?:\([^()]*\))?\(\s*(["'`])([\s\S]*?)\1\s*,/g,
  );
  return [...titles].map(([, , title]) => title as string);
}

/** What leaves tests out: the others of a file, or these. */
const ALONE = /\b(?:it|test|describe)(?:\.\w+)*\.(?:only)\b|\bonly: true/;
const LEFT_OUT = /\.(?:skip|skipIf|runIf|todo)\b|\b(?:skip|todo): /;

describe("a file of promises", () => {
  it("keeps all of them, asserts something, and titles them as sentences of the manual", () => {
    for (const file of files) {
      const text = read(file);
      expect(text, file).toContain("expect(");
      for (const line of text.split("\n")) {
        expect(line, file).not.toMatch(ALONE);
        if (LEFT_OUT.test(line)) expect(line, `${file}: the reason stands on the same line`).toMatch(/\s\/\/ \w+/);
      }
      for (const title of titlesOf(text)) expect(title, file).not.toMatch(/\bshould\b|\bworks\b|\btests?\b|#\d/i);
    }
  });

  it("about behaviour or a unit never sleeps", () => {
    const timeless = files.filter((file) => file.startsWith("test/unit") || file.startsWith("test/behaviour"));
    for (const file of timeless) expect(read(file), file).not.toMatch(/\bsetTimeout\b|timers\/promises|\bsleep\(/);
  });
});
