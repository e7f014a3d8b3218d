/**
 * Packs the package, installs the tarball into an empty project as a user would, and loads every
 * entry point with import() and with require().
 *
 *   node scripts/check-package.mjs    prints the exported names, or fails
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const project = mkdtempSync(join(tmpdir(), "graphql-cached-package-"));

function run(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with code ${status}:\n${stdout}\n${stderr}`);
  return stdout.trim();
}

/**
 * Prints the names that each entry point exports. Throws if import() and require() return different
 * names.
 */
function printExports(entryPoints) {
  for (const entryPoint of entryPoints) {
    const namesOf = (expression) =>
      run(
        process.execPath,
        ["-e", `(async () => console.log(Object.keys(${expression}).sort().join(" ")))()`],
        project,
      );
    const imported = namesOf(`await import(${JSON.stringify(entryPoint)})`);
    const required = namesOf(`require(${JSON.stringify(entryPoint)})`);
    if (imported === "" || imported !== required.replace("__esModule ", ""))
      throw new Error(
        `${entryPoint}: expected the same exports from import and require, got "${imported}" and "${required}"`,
      );
    console.log(`${entryPoint}: ${imported}`);
  }
}

const ENTRY_POINTS = [
  "graphql-cached",
  "graphql-cached/redis",
  "graphql-cached/memcached",
  "graphql-cached/apollo",
  "graphql-cached/yoga",
  "graphql-cached/mercurius",
  "graphql-cached/testing",
];

try {
  const [{ filename }] = JSON.parse(
    run("npm", ["pack", "--json", "--silent", "--pack-destination", project], ROOT).replace(/^[^[]*/, ""),
  );
  writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true }));
  run("npm", ["install", "--silent", join(project, filename), "graphql@16"], project);
  console.log("with graphql only:");
  printExports(ENTRY_POINTS);
  run("npm", ["install", "--silent", "ioredis@6", "memcache-client@1", "@apollo/server@5", "msgpackr@2"], project);
  console.log("with ioredis, memcache-client, @apollo/server and msgpackr:");
  printExports([...ENTRY_POINTS, "graphql-cached/msgpackr"]);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  rmSync(project, { recursive: true, force: true });
}
