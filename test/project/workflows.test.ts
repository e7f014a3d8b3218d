import { existsSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { filesIn, ROOT, read } from "./source.js";

const workflows = filesIn(".github/workflows", ".yml");
const ci = read(".github/workflows/ci.yml");
const verify = read("scripts/verify.mjs");
const { scripts, engines } = JSON.parse(read("package.json")) as {
  scripts: Record<string, string>;
  engines: { node: string };
};

/** The items of the first YAML list in square brackets, or of the first JavaScript array, that follows `name`. */
const listAfter = (name: string, text: string): string[] => {
  const [, items = ""] = new RegExp(`${name}\\s*\\[([^\\]]*)\\]`).exec(text) ?? [];
  return items.split(",").map((item) => item.trim().replaceAll('"', ""));
};
/** The line of a version that is tested: the oldest one with its minor version, which `engines` names as well. */
const lineOf = (version: string): string =>
  version
    .split(".")
    .slice(0, version.startsWith("20.") ? 2 : 1)
    .join(".");

describe("the workflows of GitHub Actions", () => {
  it("test the lines of Node.js that verify tests, of which the oldest is the oldest that the package accepts", () => {
    const versions = listAfter("node:", ci);
    expect(versions).toEqual(listAfter("NODE_VERSIONS =", verify).map(lineOf));
    expect(engines.node).toBe(`>=${versions[0]}.0`);
    expect(versions).toContain(read(".nvmrc").trim());
  });

  it("run every part of verify", () => {
    const [, steps = ""] = /const STEPS = \{\n([\s\S]*?)\n\};/.exec(verify) ?? [];
    const names = [...steps.matchAll(/^ {2}(\w+):/gm)].map(([, name]) => name);
    expect(names.length).toBeGreaterThan(5);
    expect(listAfter("part:", ci)).toEqual(names);
  });

  it.each([...workflows, ".ci/run", "CONTRIBUTING.md", ".github/pull_request_template.md"])(
    "%s runs scripts that exist",
    (file) => {
      const named = [...read(file).matchAll(/npm run (?:-s |--silent )?([\w:-]+)/g)].map(([, name]) => name as string);
      expect(named.filter((name) => !Object.hasOwn(scripts, name))).toEqual([]);
      const files = [...read(file).matchAll(/\bnode (scripts\/[\w./-]+)/g)].map(([, path]) => path as string);
      expect(files.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
    },
  );

  it.each(workflows)("%s pins actions to commits and says what it may do", (file) => {
    const text = read(file);
    const uses = [...text.matchAll(/uses: (.*)/g)].map(([, action]) => action as string);
    expect(uses.length).toBeGreaterThan(0);
    expect(uses.filter((action) => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action))).toEqual([]);
    expect(text).toMatch(/^permissions:/m);
    expect(text).toMatch(/^concurrency:/m);
  });

  it("let only the job that publishes ask npm to trust it", () => {
    const writers = workflows.filter((file) => read(file).includes("id-token: write"));
    expect(writers).toEqual([".github/workflows/release.yml"]);
    expect(read(".github/workflows/release.yml").split("id-token: write")).toHaveLength(2);
  });
});
