/**
 * The documentation site, made of docs/*.md by VitePress, which has a package of its own.
 *
 *   node scripts/docs-site.mjs             builds the site and serves it
 *   node scripts/docs-site.mjs --build     builds it only; a dead link fails
 *   node scripts/docs-site.mjs --dev       serves the pages while they are written
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const FOLDER = fileURLToPath(new URL("../docs", import.meta.url));
const LOCK = `${FOLDER}/package-lock.json`;
const INSTALLED = `${FOLDER}/node_modules/.installed-lock.json`;

function run(command, ...args) {
  const { status } = spawnSync(command, args, { cwd: FOLDER, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

const isInstalled = existsSync(INSTALLED) && readFileSync(INSTALLED).equals(readFileSync(LOCK));
if (!isInstalled) {
  run("npm", "ci", "--silent");
  copyFileSync(LOCK, INSTALLED);
}
if (process.argv.includes("--dev")) run("npx", "vitepress", "dev");
else {
  run("npx", "vitepress", "build");
  // Not `vitepress preview`, which listens on all interfaces and has no option for one.
  if (!process.argv.includes("--build"))
    run("npx", "vite", "preview", "--outDir", ".vitepress/dist", "--host", "127.0.0.1");
}
