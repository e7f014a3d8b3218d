/**
 * `npm run bench`: installs what the library is measured against, beside this file and nowhere else, compiles, and runs.
 *
 *   npm run bench                       everything, with all repetitions
 *   npm run bench -- --quick            everything with fewer repetitions, meant to end within three minutes
 *   npm run bench -- warm-key outage    these scenarios only
 */
import { spawnSync } from "node:child_process";
import { existsSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

const here = fileURLToPath(new URL(".", import.meta.url));
const rootBin = fileURLToPath(new URL("../node_modules/.bin/", import.meta.url));
const installed = `${here}node_modules/.package-lock.json`;

function must(command, args, options = {}) {
  const { status, error } = spawnSync(command, args, { stdio: "inherit", ...options });
  if (status !== 0) {
    console.error(`bench: ${command} ${args.join(" ")}: ${error?.message ?? `exit code ${status}`}`);
    process.exit(status ?? 1);
  }
}

if (!existsSync(rootBin)) must("npm", ["ci", "--no-audit", "--no-fund"], { cwd: `${here}..` });
if (!existsSync(installed) || statSync(installed).mtimeMs < statSync(`${here}package-lock.json`).mtimeMs)
  must("npm", ["ci", "--no-audit", "--no-fund", "--loglevel=error"], { cwd: here });
// The processes that are measured run what tsc has made of the sources: tsx would name every function at run time, which costs time.
must(`${rootBin}tsc`, ["-p", `${here}tsconfig.json`]);
must(`${rootBin}tsx`, [`${here}main.ts`, ...process.argv.slice(2)]);
