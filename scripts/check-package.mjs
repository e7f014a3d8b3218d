/** Packs the package, installs the tarball into an empty project as a user would, and opens every door both ways. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const project = mkdtempSync(join(tmpdir(), "graphql-cached-package-"));

function run(command, args, cwd) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} ended with ${status}:\n${stdout}\n${stderr}`);
  return stdout.trim();
}

/** The names that each door lets out, by import() and by require(), which must be the same. */
function open(doors) {
  for (const door of doors) {
    const names = (expression) =>
      run(
        process.execPath,
        ["-e", `(async () => console.log(Object.keys(${expression}).sort().join(" ")))()`],
        project,
      );
    const imported = names(`await import(${JSON.stringify(door)})`);
    const required = names(`require(${JSON.stringify(door)})`);
    if (imported === "" || imported !== required.replace("__esModule ", ""))
      throw new Error(`${door}: import gives "${imported}", require gives "${required}"`);
    console.log(`${door}: ${imported}`);
  }
}

const DOORS = [
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
  console.log("with graphql alone:");
  open(DOORS);
  run("npm", ["install", "--silent", "ioredis@6", "memcache-client@1", "@apollo/server@5", "msgpackr@2"], project);
  console.log("with ioredis, memcache-client, @apollo/server and msgpackr:");
  open([...DOORS, "graphql-cached/msgpackr"]);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
} finally {
  rmSync(project, { recursive: true, force: true });
}
