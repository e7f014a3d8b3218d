/**
 * `npm run bench`: installs the peers and Node.js 24, compiles and runs the benchmarks with it.
 *
 *   npm run bench                       all scenarios, with all rounds
 *   npm run bench -- --quick            the page and what it is made of, with fewer rounds
 *   npm run bench -- page cold-key      only these scenarios; "page" is every one whose name begins with it
 *   npm run bench -- page --against=../other    compares this build with that of another checkout, which has been built
 *   npm run bench -- --smoke            all scenarios once, to see that they run; saves nothing
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, statSync, symlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { environmentOf } from "../scripts/node-version.mjs";

const NODE_VERSION = "24.21.0";
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
const env = environmentOf(NODE_VERSION);
// Measured processes run code compiled by tsc, because tsx names functions at run time, which costs time.
run(`${rootBin}tsc`, ["-p", `${here}tsconfig.json`]);
// What the compiled sources of the packages import as graphql-cached is the compiled source of the root.
const compiledRoot = `${here}dist/node_modules/graphql-cached`;
if (!existsSync(compiledRoot)) {
  mkdirSync(compiledRoot, { recursive: true });
  symlinkSync("../../src", `${compiledRoot}/dist`);
}
copyFileSync(`${here}../package.json`, `${compiledRoot}/package.json`);
run(`${rootBin}tsx`, [`${here}main.ts`, ...process.argv.slice(2)], { env });
