import { describe, expect, it } from "vitest";
import { filesIn, read } from "./source.js";

/** Words of the field that this house does not say, since it says another one for the same thing (STYLE 6.6). */
const FORBIDDEN =
  /\b(swr|soft ttl|grace period|fail-safe|mutex|dogpile|thundering herd|purge|bust|L1|L2|inflight|in-flight map|request collapsing|eager refresh|null caching|item|payload)\b/i;
const CLOCKS =
  /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bsetTimeout\b|\bsetInterval\b|\bsetImmediate\b|\bperformance\.now\b/;

describe("words", () => {
  it("for time and chance stand in the clock, and in the fake one", () => {
    for (const file of filesIn("src"))
      if (!["src/clock.ts", "src/testing/fake-clock.ts"].includes(file)) expect(read(file), file).not.toMatch(CLOCKS);
  });

  it("of the public tongue are those of the glossary", () => {
    const doors = filesIn("src").filter((file) => file.endsWith("index.ts"));
    for (const file of ["README.md", ...filesIn("schema", ".graphql"), ...doors]) {
      const prose = read(file).replace(/## (What others do|Comparison)[\s\S]*?(?=^## )/m, "");
      expect(FORBIDDEN.exec(prose)?.[0], file).toBeUndefined();
    }
    for (const file of filesIn("src")) expect(file).not.toMatch(/utils|helpers|common|misc|manager|base|types/);
  });

  it("promise nothing for later", () => {
    for (const file of [...filesIn("src"), ...filesIn("examples"), ...filesIn("scripts", ".mjs")])
      expect(read(file), file).not.toMatch(/\b(TODO|FIXME|XXX)\b(?! #\d)/);
  });
});
