import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { entryPointOf, filesIn, ROOT, read } from "./source.js";

type Targets = Readonly<Record<string, { readonly types: string; readonly default: string }>>;
const { exports, main, types } = JSON.parse(read("package.json")) as {
  readonly exports: Readonly<Record<string, string | Targets>>;
  readonly main: string;
  readonly types: string;
};
const entryPoints = Object.entries(exports).filter((entry): entry is [string, Targets] => typeof entry[1] === "object");

/** Below `node_modules`, from where dependencies are found. */
const home = join(ROOT, "node_modules/.cache", `graphql-cached-commonjs-${process.pid}`);

/** Loads modules as `require` did before it could load ES modules, which Jest still does. */
const LOADER = `
const Module = require("node:module");
const { join } = require("node:path");
const load = (name) => require(join(${JSON.stringify(home)}, name));
const { graphql, buildSchema } = require("graphql");
`;
const PROGRAM = `
const { applyCached, cachedTypeDefs, createCache, memoryStore } = load("index.js");
const schema = buildSchema(cachedTypeDefs + " type Query { top: Int @cached(maxAge: 60) }");
let loads = 0;
schema.getQueryType().getFields().top.resolve = () => ++loads;
const cache = createCache({ defaultScope: "PUBLIC", store: memoryStore() });
const cached = applyCached(schema, cache);
(async () => {
  for (let round = 0; round < 2; round++) console.log((await graphql({ schema: cached, source: "{ top }" })).data.top);
  await cache.close();
})();
`;

/** What the entry point is called in a build, without the suffix: `./redis` → `stores/redis/index`. */
const fileOf = (path: string): string => entryPointOf(path).replace("src/", "").replace(".ts", "");

const run = (program: string): string => {
  const { stdout, stderr } = spawnSync(process.execPath, ["-e", LOADER + program], { cwd: ROOT, encoding: "utf8" });
  return stdout + stderr;
};

beforeAll(() => {
  mkdirSync(home, { recursive: true });
  const tsc = join(ROOT, "node_modules/.bin/tsc");
  const { stdout } = spawnSync(tsc, ["-p", "tsconfig.cjs.json", "--outDir", home], { cwd: ROOT, encoding: "utf8" });
  expect(stdout).toBe("");
  writeFileSync(join(home, "package.json"), '{ "type": "commonjs" }');
}, 60_000);
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("the CommonJS build", () => {
  it("caches in a program that requires it", () => {
    expect(run(PROGRAM)).toBe("1\n1\n");
  });

  it("has every entry point, with the same names as the ES modules", async () => {
    const names = entryPoints.map(([path]) => path);
    const required = JSON.parse(
      run(
        `console.log(JSON.stringify(${JSON.stringify(names.map((name) => `${fileOf(name)}.js`))}.map((name) => Object.keys(load(name)))));`,
      ),
    ) as unknown;
    const imported = await Promise.all(
      names.map(async (name) =>
        Object.keys((await import(/* @vite-ignore */ `../../${entryPointOf(name)}`)) as object),
      ),
    );
    expect((required as string[][]).map((all) => new Set(all))).toEqual(imported.map((all) => new Set(all)));
  });

  it("is what package.json names where ES modules cannot be required, and nowhere else", () => {
    expect([main, types]).toEqual(["./dist/cjs/index.js", "./dist/cjs/index.d.ts"]);
    for (const [path, targets] of entryPoints) {
      const at = (folder: string) => ({
        types: `${folder}/${fileOf(path)}.d.ts`,
        default: `${folder}/${fileOf(path)}.js`,
      });
      const esm = at("./dist");
      // The first one that applies counts: Node.js itself loads one copy, whether it is imported or required.
      expect(Object.entries(targets), path).toEqual([
        ...(path === "." ? [["edge-light", "./dist/edge-runtime.cjs"]] : []),
        ["module-sync", esm],
        ["require", at("./dist/cjs")],
        ...Object.entries(esm),
      ]);
    }
  });

  it("is refused by one sentence where edge runtimes ask for the package, which lack the modules of Node.js", () => {
    expect(run(`require(${JSON.stringify(join(ROOT, "src/edge-runtime.cjs"))});`)).toMatch(
      /Error: graphql-cached: expected Node\.js, .* got an edge runtime, .*; run this code on Node\.js/,
    );
  });

  it("can load every source file that it has", () => {
    for (const file of filesIn("src").filter((name) => !name.startsWith("src/tools/cli/")))
      expect(read(file), file).not.toMatch(/\bimport\.meta\b|^(?:const .* = )?await /m);
  });
});
