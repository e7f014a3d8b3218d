/**
 * Finds SQLite for the tests: node:sqlite, or a package with its interface if this Node.js is too old for that. With SQLITE_PACKAGE=better-sqlite3,
 * it is that package. Packages are installed once, below node_modules/.cache.
 *
 *   node scripts/setup-sqlite.mjs    prints what the tests import
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The first has binaries for all systems in its package. The second downloads or compiles its own, which takes minutes. */
const PACKAGES = { "@photostructure/sqlite": "1.2.1", "better-sqlite3": "12.11.1" };

/** Returns a module, by its path if it is that of a package. Its class is `DatabaseSync`, or its default export. */
export function setupSqlite(wanted = process.env.SQLITE_PACKAGE) {
  if (wanted === undefined && process.getBuiltinModule?.("node:sqlite") !== undefined) return "node:sqlite";
  const name = wanted ?? "@photostructure/sqlite";
  const version = PACKAGES[name];
  if (version === undefined)
    throw new Error(`SQLITE_PACKAGE: expected ${Object.keys(PACKAGES).join(" or ")}, got ${name}`);
  const abi = process.versions.modules;
  const home = fileURLToPath(
    new URL(`../node_modules/.cache/sqlite/${name.replace("/", "-")}-${version}-${abi}`, import.meta.url),
  );
  if (!existsSync(home)) {
    // Moved in one step, since two runs of the tests may do so at once.
    const making = `${home}-${process.pid}`;
    mkdirSync(making, { recursive: true });
    const manifest = { name: "sqlite", private: true, allowScripts: { [name]: true } };
    writeFileSync(join(making, "package.json"), JSON.stringify(manifest));
    const { status, stdout, stderr } = spawnSync("npm", ["install", "--silent", "--no-save", `${name}@${version}`], {
      cwd: making,
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`npm install ${name}@${version} exited with ${status}:\n${stdout}\n${stderr}`);
    try {
      renameSync(making, home);
    } catch (error) {
      rmSync(making, { recursive: true, force: true });
      if (!existsSync(home)) throw error;
    }
  }
  return createRequire(join(home, "package.json")).resolve(name);
}

/**
 * Gives a project what programs with @graphql-cached/sqlite need where Node.js has no SQLite: that package in the place of better-sqlite3,
 * which has to be compiled.
 */
export function installSqlite(project) {
  const found = setupSqlite();
  if (found === "node:sqlite") return;
  const folder = join(project, "node_modules/better-sqlite3");
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "name": "better-sqlite3", "version": "12.0.0", "main": "index.js" }');
  writeFileSync(join(folder, "index.js"), `module.exports = require(${JSON.stringify(found)}).DatabaseSync;`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) console.log(setupSqlite());
