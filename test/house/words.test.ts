import { describe, expect, it } from "vitest";
import { filesIn, read } from "./source.js";

/** Words of the field that this house does not say, since it says another one for the same thing (STYLE 6.6). */
const FORBIDDEN =
  /\b(swr|soft ttl|grace period|fail-safe|mutex|dogpile|thundering herd|purge|bust|evict ?all|L1|L2|inflight|in-flight map|request collapsing|eager refresh|null caching|item|payload)\b/i;
const CLOCKS =
  /\bDate\.now\b|\bnew Date\(\)|\bMath\.random\b|\bsetTimeout\b|\bsetInterval\b|\bsetImmediate\b|\bperformance\.now\b/;

describe("words", () => {
  it("for time and chance stand in the clock; the fake one knows the turn of the event loop, and no time", () => {
    for (const file of filesIn("src").filter((name) => name !== "src/clock.ts")) {
      const text = file === "src/testing/fake-clock.ts" ? read(file).replaceAll("setImmediate", "") : read(file);
      expect(CLOCKS.exec(text)?.[0], file).toBeUndefined();
    }
  });

  it("of the public tongue are those of the glossary", () => {
    const doors = filesIn("src").filter((file) => file.endsWith("index.ts"));
    for (const file of ["README.md", ...filesIn("schema", ".graphql"), ...doors]) {
      const prose = read(file).replace(/## (What others do|Comparison)[\s\S]*?(?=^## )/m, "");
      expect(FORBIDDEN.exec(prose)?.[0], file).toBeUndefined();
    }
    for (const file of filesIn("src")) expect(file).not.toMatch(/utils|helpers|common|misc|manager|base|types/);
  });

  it("of exported names and of files are those of the glossary, also inside a name", () => {
    const check = (name: string, file: string): void => {
      const spaced = name.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll(/[-_/.]/g, " ");
      for (const words of [name, spaced]) expect(FORBIDDEN.exec(words)?.[0], `${file}: ${name}`).toBeUndefined();
    };
    for (const file of filesIn("src")) {
      check(file, file);
      const named = read(file).matchAll(/^export (?:declare )?(?:abstract )?(?:async )?\w+ (\w+)/gm);
      for (const [, name] of named) check(name as string, file);
    }
  });

  it("promise nothing for later", () => {
    const tests = filesIn("test").filter((file) => !file.startsWith("test/house/"));
    for (const file of [
      ...filesIn("src"),
      ...tests,
      ...filesIn("examples"),
      ...filesIn("scripts", ".mjs"),
      "README.md",
    ])
      expect(read(file), file).not.toMatch(/\b(TODO|FIXME|XXX)\b(?! #\d)/);
  });
});
