import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { entryPointsOf, packageNames } from "../../scripts/build.mjs";
import { entryPointOf, filesIn, ROOT, read } from "./source.js";

interface Manifest {
  readonly exports: Readonly<Record<string, string | object>>;
  readonly main?: string;
  readonly types?: string;
}
const root = JSON.parse(read("package.json")) as Manifest;
const points = Object.keys(root.exports).filter((path) => !/\.(json|graphql)$/.test(path));

/** Below `node_modules`, from where dependencies are found. */
const home = join(ROOT, "node_modules/.cache", `graphql-cached-build-${process.pid}`);

/** Loads modules as `require` did before it could load ES modules, which Jest still does. */
const LOADER = `
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

/** What the entry point is called in the build, without the suffix: `./redis` → `stores/redis/index`. */
const fileOf = (path: string): string => entryPointOf(path).replace("src/", "").replace(".ts", "");

const run = (program: string): string => {
  const { stdout, stderr } = spawnSync(process.execPath, ["-e", LOADER + program], { cwd: ROOT, encoding: "utf8" });
  return stdout + stderr;
};

beforeAll(() => {
  mkdirSync(home, { recursive: true });
  const { stdout, stderr } = spawnSync(process.execPath, ["scripts/build.mjs", ".", home], {
    cwd: ROOT,
    encoding: "utf8",
  });
  expect(stdout + stderr).toBe("");
}, 60_000);
afterAll(() => rmSync(home, { recursive: true, force: true }));

describe("the build", () => {
  it("caches in a program that requires it", () => {
    expect(run(PROGRAM)).toBe("1\n1\n");
  });

  it("has every entry point, with the names of its source, by import and by require", async () => {
    const files = points.map((path) => `${fileOf(path)}.js`);
    const found = run(`
      (async () => {
        const names = [];
        for (const file of ${JSON.stringify(files)}) {
          const { default: whole, "module.exports": again, ...imported } = await import(join(${JSON.stringify(home)}, file));
          const required = load(file);
          names.push(Object.keys({ ...imported, ...required }).filter((name) => imported[name] === required[name]));
        }
        console.log(JSON.stringify(names));
      })();
    `);
    const sources = await Promise.all(
      points.map(async (path) =>
        Object.keys((await import(/* @vite-ignore */ `../../${entryPointOf(path)}`)) as object),
      ),
    );
    expect((JSON.parse(found) as string[][]).map((names) => new Set(names))).toEqual(
      sources.map((names) => new Set(names)),
    );
  });

  it("declares each of its classes once, whatever a program imports", () => {
    const built = readdirSync(home, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".js"));
    const classes = built.flatMap((file) =>
      [...readFileSync(join(home, file), "utf8").matchAll(/^(?:var )?(\w+) = class\b/gm)].map(([, name]) => name),
    );
    expect(classes).toContain("CachedError");
    expect(classes.filter((name, nth) => classes.indexOf(name) !== nth)).toEqual([]);
  });

  it("runs in strict mode, as its source does", () => {
    const built = readdirSync(home, { recursive: true, encoding: "utf8" }).filter((file) => file.endsWith(".js"));
    expect(built).toContain("index.js");
    for (const file of built)
      expect(readFileSync(join(home, file), "utf8"), file).toMatch(/^(?:#!.*\n)?"use strict";\n/);
  });

  it("is one file for each entry point, which package.json names for import and require alike", () => {
    for (const folder of ["", ...packageNames().map((name) => `packages/${name}/`)]) {
      const { exports, main, types } = JSON.parse(read(`${folder}package.json`)) as Manifest;
      const { ".": index, "./package.json": manifest, ...others } = exports;
      if (folder === "") expect(index).toEqual({ "edge-light": "./src/edge-runtime.cjs", default: "./dist/index.js" });
      else expect([undefined, "./dist/index.js"], folder).toContain(index);
      expect([main, types], folder).toEqual(
        index === undefined ? [undefined, undefined] : ["./dist/index.js", "./dist/index.d.ts"],
      );
      expect(manifest).toBe("./package.json");
      for (const [path, target] of Object.entries(others))
        expect(target, path).toMatch(/^\.\/(?:dist\/.*index\.js|.*\.graphql|.*\.json)$/);
      for (const name of entryPointsOf({ exports }))
        expect(filesIn(`${folder}src`)).toContain(`${folder}src/${name}.ts`);
    }
  });

  it("is refused by one sentence where edge runtimes ask for the package, which lack the modules of Node.js", () => {
    expect(run(`require(${JSON.stringify(join(ROOT, "src/edge-runtime.cjs"))});`)).toMatch(
      /Error: graphql-cached: expected Node\.js, .* got an edge runtime, .*; run this code on Node\.js/,
    );
  });

  it("can load every source file that it has", () => {
    const folders = ["src", ...packageNames().map((name) => `packages/${name}/src`)];
    for (const file of folders.flatMap((folder) => filesIn(folder)))
      expect(read(file), file).not.toMatch(/\bimport\.meta\b|^(?:const .* = )?await /m);
  });
});
