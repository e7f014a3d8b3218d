/**
 * Installs the dependencies of the examples, unless they are installed, and runs an example.
 *
 *   node scripts/run-example.mjs servers/yoga.ts     runs a program below examples/
 *   node scripts/run-example.mjs --test              type-checks and tests all examples
 */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const EXAMPLES = join(ROOT, "examples");
const installed = join(EXAMPLES, "node_modules/.package-lock.json");
const [program, ...args] = process.argv.slice(2);

function run(command, args, cwd) {
  const env = { ...process.env, TSX_TSCONFIG_PATH: join(EXAMPLES, "tsconfig.json") };
  const { status, signal, error } = spawnSync(command, args, { cwd, env, stdio: "inherit" });
  if (status === 0 || signal === "SIGINT" || signal === "SIGTERM") return;
  if (error !== undefined) console.error(`${command}: ${error.message}`);
  process.exit(status ?? 1);
}

if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(join(EXAMPLES, "package-lock.json")).mtimeMs) {
  console.log("Installing the dependencies of the examples …");
  run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], EXAMPLES);
}
const bin = join(ROOT, "node_modules/.bin");
if (program === "--test") {
  run(join(bin, "tsc"), ["-p", join(EXAMPLES, "tsconfig.json")], ROOT);
  run(join(bin, "vitest"), ["run", "--config", "examples/vitest.config.ts", ...args], ROOT);
} else {
  run(process.execPath, ["--import", "tsx", join(EXAMPLES, program), ...args], ROOT);
}
