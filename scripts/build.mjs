/**
 * Builds packages into their `dist`: the code of their entry points as CommonJS, and its declarations.
 *
 *   node scripts/build.mjs                            the root, then all packages below `packages/`
 *   node scripts/build.mjs <folder> [<folder of dist>]   the package in a folder, which has a `tsconfig.build.json`
 *
 * One format: `import` and `require` load the same copy everywhere, also where a program uses both, and a test runner that cannot require
 * ES modules. What entry points share is in chunks. Dependencies are not bundled.
 */
import { spawnSync } from "node:child_process";
import { readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Returns the names of the folders in `packages/`. */
export const packageNames = () =>
  readdirSync(join(ROOT, "packages"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);

/** Returns the files in `dist` that `package.json` exports or runs, without the suffix: `index`, `stores/redis/index`. */
export const entryPointsOf = ({ exports, bin = {} }) =>
  [...Object.values(exports).map((target) => target.default ?? target), ...Object.values(bin)]
    .filter((path) => path.endsWith(".js"))
    .map((path) => path.replace(/^(\.\/)?dist\//, "").replace(/\.js$/, ""));

async function build(folder, dist) {
  // Not at the top: those who only ask for names run where nothing is installed.
  const { rolldown } = await import("rolldown");
  rmSync(dist, { recursive: true, force: true });
  const manifest = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const bundle = await rolldown({
    input: Object.fromEntries(entryPointsOf(manifest).map((name) => [name, join(folder, "src", `${name}.ts`)])),
    platform: "node",
    external: /^[^./]/,
    tsconfig: join(ROOT, "tsconfig.json"),
  });
  await bundle.write({
    dir: dist,
    format: "cjs",
    strict: true,
    comments: { legal: false, annotation: true, jsdoc: false },
  });
  writeFileSync(join(dist, "package.json"), '{ "type": "commonjs" }\n');
  const options = ["-p", "tsconfig.build.json", "--emitDeclarationOnly", "--outDir", dist];
  const { status } = spawnSync(join(ROOT, "node_modules/.bin/tsc"), options, { cwd: folder, stdio: "inherit" });
  if (status !== 0) throw new Error(`${folder} does not build`);
  removeUnreached(
    dist,
    entryPointsOf(manifest).map((name) => join(dist, `${name}.d.ts`)),
  );
}

/** Removes the declarations that those of the entry points do not mention: nobody can import them. */
function removeUnreached(dist, entryPoints) {
  const reached = new Set(entryPoints);
  for (const path of reached)
    for (const [, from] of readFileSync(path, "utf8").matchAll(/(?:from |import\()"(\..*)\.js"/g))
      reached.add(join(dirname(path), `${from}.d.ts`));
  for (const file of readdirSync(dist, { recursive: true }))
    if (file.endsWith(".d.ts") && !reached.has(join(dist, file))) rmSync(join(dist, file));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [given, dist] = process.argv.slice(2);
  const folders = given === undefined ? [".", ...packageNames().map((name) => `packages/${name}`)] : [];
  if (given !== undefined) await build(resolve(given), resolve(dist ?? join(given, "dist")));
  for (const folder of folders) await build(join(ROOT, folder), join(ROOT, folder, "dist"));
}
