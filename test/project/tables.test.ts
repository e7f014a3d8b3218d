import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, it } from "vitest";
import { CODES } from "../../src/errors.js";
import { OPTIONS } from "../../src/options.js";
import { filesIn, read, tableUnder } from "./source.js";

const readme = read("README.md");
const unquoted = (stored: string | undefined): string => (stored ?? "").replaceAll("`", "");

describe("the table of errors", () => {
  it("is the same in the code and in the README", () => {
    const rows = tableUnder("Errors", readme).map(([code, meaning]) => [unquoted(code), meaning]);
    expect(rows).toEqual(Object.entries(CODES));
  });

  it("holds only codes that are used", () => {
    const code = filesIn("src")
      .filter((file) => file !== "src/errors.ts")
      .map(read)
      .join("\n");
    for (const name of Object.keys(CODES)) expect(code.includes(`"${name}"`), name).toBe(true);
  });
});

describe("the table of options", () => {
  it("is the same in the code and in the README, defaults included", () => {
    const rows = tableUnder("Options", readme).map(([name, fallback]) => [unquoted(name), unquoted(fallback)]);
    const own = Object.entries(OPTIONS).map(([name, { fallback }]) => [
      name,
      fallback === undefined ? "–" : String(fallback),
    ]);
    expect(rows).toEqual([...own, ["defaults", "–"], ["profiles", "–"]]);
  });
});

describe("the table of the directive's arguments", () => {
  it("is the same in the SDL and in the README", () => {
    const rows = tableUnder("The directive", readme).map(([name]) => unquoted(name));
    const [, body = ""] = read("schema/cached.graphql").split("directive @cached(");
    const args = [...(body.split(") on FIELD_DEFINITION")[0] ?? "").matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name);
    expect(rows).toEqual(args);
  });
});

describe("a link", () => {
  it("on a page of the repository leads to a file that is there", () => {
    for (const page of [
      "README.md",
      "CHANGELOG.md",
      "examples/recipes.md",
      "bench/README.md",
      "test/THREATS.md",
      ...filesIn("examples", "README.md"),
      "bench/README.md",
    ])
      for (const [, target = ""] of read(page).matchAll(/\]\((?!https?:)([^)#]+)[^)]*\)/g))
        expect(existsSync(join(dirname(page), target)), `${page}: ${target}`).toBe(true);
  });
});
