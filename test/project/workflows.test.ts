import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
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

  it("run, in jobs that install nothing, scripts that import nothing that is installed", () => {
    const jobs = workflows.flatMap((file) => (read(file).split(/^jobs:\n/m)[1] ?? "").split(/^ {2}(?=[\w-]+:$)/m));
    const bare = jobs.filter((job) => !/\bnpm (?:ci|cit|install)\b|\.ci\/run/.test(job));
    const names = bare.flatMap((job) =>
      [...job.matchAll(/npm run (?:-s |--silent )?([\w:-]+)/g)].map(([, name]) => name),
    );
    expect(names).toEqual(expect.arrayContaining(["changeset", "commits:check"]));
    const reached = new Set(names.map((name = "") => /^node (\S+\.mjs)/.exec(scripts[name] ?? "")?.[1] as string));
    for (const file of reached)
      for (const [, from = ""] of read(file).matchAll(/^(?:import|export)\s[^;"']*?from "([^"]+)"/gm))
        if (from.startsWith(".")) reached.add(join(dirname(file), from));
        else expect(from, file).toMatch(/^node:/);
  });

  it("leave out no test for want of a program where .ci/run runs", () => {
    const [, job = ""] = /^ {2}test:\n([\s\S]*?)^ {2}\w+:$/m.exec(ci) ?? [];
    expect(job).toMatch(/apt-get install .*chromium postgresql/);
    expect(job).toContain('EVERY_TEST: "1"');
  });

  it("ask verify for versions of Node.js that it tests only", () => {
    const { status, stderr } = spawnSync(process.execPath, ["scripts/verify.mjs", "nodes", "21"], { cwd: ROOT });
    expect([status, stderr.toString()]).toEqual([2, "expected versions of Node.js that are tested, got 21\n"]);
  });

  it("propose a release by an open pull request, not by one that is merged", () => {
    expect(read(".github/workflows/release.yml")).not.toMatch(/gh pr edit next-release --/);
  });

  it("let only the job that publishes ask npm to trust it", () => {
    const writers = workflows.filter((file) => read(file).includes("id-token: write"));
    expect(writers).toEqual([".github/workflows/release.yml"]);
    expect(read(".github/workflows/release.yml").split("id-token: write")).toHaveLength(2);
  });
});
