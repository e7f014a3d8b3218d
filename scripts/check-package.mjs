/** Packs the package, installs the tarball into an empty project as a user would, and loads every entry point. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const PEERS = ["ioredis@6", "memcache-client@1", "@apollo/server@5", "msgpackr@2"];

function run(command, args, cwd, env = process.env) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}:\n${stdout}\n${stderr}`);
  return stdout.trim();
}

/** Builds and packs the package, and returns the path of the tarball. */
export function pack(root) {
  const folder = mkdtempSync(join(tmpdir(), "graphql-cached-pack-"));
  const output = run("npm", ["pack", "--json", "--silent", "--pack-destination", folder], root);
  const [{ filename }] = JSON.parse(output.slice(output.indexOf("[")));
  return join(folder, filename);
}

/**
 * Installs the tarball with `engine-strict` into an empty project, first with graphql alone, then
 * with every peer, and loads each entry point by `import` and by `require`: both must export the same names.
 */
export function checkPackage(tarball, env = process.env) {
  const project = mkdtempSync(join(tmpdir(), "graphql-cached-package-"));
  const { exports } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));
  const entryPoints = Object.keys(exports)
    .filter((path) => !path.endsWith(".json") && !path.endsWith(".graphql"))
    .map((path) => path.replace(".", "graphql-cached"));
  const load = (names) => {
    for (const name of names) {
      const exported = (expression) =>
        run(
          "node",
          ["-e", `(async () => console.log(Object.keys(${expression}).sort().join(" ")))()`],
          project,
          env,
        ).replace("__esModule ", "");
      const [imported, required] = [exported(`await import("${name}")`), exported(`require("${name}")`)];
      if (imported === "" || imported !== required)
        throw new Error(`${name}: import exports "${imported}", require exports "${required}"`);
    }
  };
  try {
    writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true }));
    run("npm", ["install", "--silent", "--engine-strict", tarball, "graphql@16"], project, env);
    load(entryPoints.filter((name) => !name.endsWith("/msgpackr")));
    // Not engine-strict: on Node 20, dependencies of @apollo/server itself ask for a later version.
    run("npm", ["install", "--silent", ...PEERS], project, env);
    load(entryPoints);
    return entryPoints;
  } finally {
    rmSync(project, { recursive: true, force: true });
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const entryPoints = checkPackage(pack(ROOT));
  console.log(`installs engine-strict and loads: ${entryPoints.join(", ")}`);
}
