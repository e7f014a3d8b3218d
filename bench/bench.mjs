/**
 * `npm run bench`: installs the peers into bench/node_modules, compiles and runs the benchmarks.
 *
 *   npm run bench                       all scenarios, with all repetitions
 *   npm run bench -- --quick            the scenarios of most targets with fewer repetitions, within five minutes
 *   npm run bench -- --smoke            all scenarios once, to see that they run
 *   npm run bench -- warm-key frozen-redis    only these scenarios
 */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const rootBin = fileURLToPath(new URL("../node_modules/.bin/", import.meta.url));
const installed = `${here}node_modules/.package-lock.json`;

function run(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: "inherit", ...options });
  if (status !== 0) {
    console.error(`bench: ${command} ${args.join(" ")}: ${error?.message ?? `exit code ${status}`}`);
    process.exit(status ?? 1);
  }
}

if (!existsSync(rootBin)) run("npm", ["ci", "--no-audit", "--no-fund"], { cwd: `${here}..` });
if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(`${here}package-lock.json`).mtimeMs)
  run("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: here });
// Measured processes run code compiled by tsc, because tsx names functions at run time, which costs time.
run(`${rootBin}tsc`, ["-p", `${here}tsconfig.json`]);
run(`${rootBin}tsx`, [`${here}main.ts`, ...process.argv.slice(2)]);
