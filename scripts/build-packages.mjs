/**
 * Builds the packages below `packages/` into their `dist`, as ES modules and as CommonJS. The root must have been built before.
 *
 *   node scripts/build-packages.mjs             all packages
 *   node scripts/build-packages.mjs sqlite      these packages
 */
import { spawnSync } from "node:child_process";
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const COMMONJS = ["--module", "CommonJS", "--moduleResolution", "Bundler", "--verbatimModuleSyntax", "false"];

/** Returns the names of the folders in `packages/`. */
export const packageNames = () =>
  readdirSync(join(ROOT, "packages"), { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name);

/** Builds the package in `folder`, which has a `tsconfig.build.json`. */
export function buildPackage(folder) {
  const dist = join(folder, "dist");
  rmSync(dist, { recursive: true, force: true });
  const compile = (...args) => {
    const command = join(ROOT, "node_modules/.bin/tsc");
    const { status, stdout } = spawnSync(command, ["-p", join(folder, "tsconfig.build.json"), ...args], {
      cwd: folder,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`${folder} does not build:\n${stdout}`);
  };
  compile();
  compile("--outDir", join(dist, "cjs"), ...COMMONJS);
  writeFileSync(join(dist, "cjs/package.json"), '{ "type": "commonjs" }\n');
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const names = process.argv.slice(2);
  for (const name of names.length > 0 ? names : packageNames()) buildPackage(join(ROOT, "packages", name));
}
