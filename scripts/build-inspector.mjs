/**
 * Installs the tools of the inspector page, unless they are installed, and builds it into packages/inspector/src/generated/inspector-page.ts.
 *
 *   node scripts/build-inspector.mjs            type-checks the sources and writes the file
 *   node scripts/build-inspector.mjs --check    the same, but fails if the file is out of date
 */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const INSPECTOR = join(ROOT, "packages/inspector/page");
const installed = join(INSPECTOR, "node_modules/.package-lock.json");

function run(command, args, cwd) {
  const { status, error } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  if (status !== 0) process.exit(status ?? 1);
}

if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(join(INSPECTOR, "package-lock.json")).mtimeMs) {
  console.log("Installing the tools of the inspector page …");
  run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], INSPECTOR);
}
run(join(ROOT, "node_modules/.bin/tsc"), ["-p", join(INSPECTOR, "tsconfig.json")], ROOT);
run(process.execPath, [join(INSPECTOR, "build.mjs"), ...process.argv.slice(2)], ROOT);
