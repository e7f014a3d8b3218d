import { existsSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { CHECKS } from "../faults/checks.js";
import { filesIn, ROOT, read } from "./source.js";

const files = [...filesIn("test", ".test.ts"), ...filesIn("packages", ".test.ts"), ...filesIn("examples", ".test.ts")];
const FOCUSED = /\b(?:it|test|describe)(?:\.\w+)*\.only\b|\bonly: true/;
const SKIPPED = /\b(?:it|test|describe|context|ctx)(?:\.\w+)*\.(?:skip|skipIf|runIf|todo)\b|\b(?:skip|todo): /;

it("every file of the suite asserts something, focuses nothing, and gives the reason where it skips", () => {
  for (const file of files) {
    const text = read(file);
    expect(text, file).toMatch(/\bexpect\(|\bitKeepsTheRules\(/);
    for (const line of text.split("\n")) {
      expect(line, file).not.toMatch(FOCUSED);
      if (SKIPPED.test(line)) expect(line, `${file}: the reason is missing on this line`).toMatch(/\s\/\/ \w+/);
    }
  }
});

it("unit and behaviour files never sleep", () => {
  const timeless = files.filter((file) => file.startsWith("test/unit") || file.startsWith("test/behaviour"));
  for (const file of timeless) expect(read(file), file).not.toMatch(/\bsetTimeout\b|timers\/promises|\bsleep\(/);
});

it("every check that a fault run removes is in one place of its file, and no other is removed in its stead", () => {
  for (const { file, from } of Object.values(CHECKS)) expect(read(file).split(from).length, `${file}: ${from}`).toBe(2);
});

it("every scenario of the fault runs is described", () => {
  const names = [...read("test/faults/scenarios.ts").matchAll(/^ {2}\{ name: "([^"]+)"/gm)].map(([, name]) => name);
  expect(names.length).toBeGreaterThan(20);
  for (const name of names) expect(read("test/THREATS.md")).toContain(`| ${name} |`);
});

it("the behaviour tests are in folders by promise, numbered as in docs/guarantees.md, so that a failure names what is broken", () => {
  const promised = [...read("docs/guarantees.md").matchAll(/^## P(\d+) /gm)].map(([, number]) => `p${number}`);
  const folders = new Set(filesIn("test/behaviour", ".test.ts").map((file) => file.split("/")[2] as string));
  expect(new Set([...folders].map((folder) => folder.replace(/-.*/, "")))).toEqual(
    new Set([...promised, "operations"]),
  );
});

it("scripts name files and folders of src, packages and test that exist", () => {
  for (const script of filesIn("scripts", ".mjs"))
    for (const [, file = ""] of read(script).matchAll(/"((?:src|packages|test)\/[\w./-]+)"/g))
      expect(existsSync(join(ROOT, file)), `${script}: ${file}`).toBe(true);
});

it("the READMEs of modules name files that exist", () => {
  const sources = [...filesIn("src"), ...filesIn("packages")];
  for (const readme of [...filesIn("src", "README.md"), ...filesIn("packages", "README.md")])
    for (const [, file = ""] of read(readme).matchAll(/`([a-z][a-z/-]*\.ts)`/g))
      expect(
        sources.filter((source) => `/${source}`.endsWith(`/${file}`)),
        `${readme}: ${file}`,
      ).not.toEqual([]);
});
