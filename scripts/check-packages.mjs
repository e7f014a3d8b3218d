/**
 * Packs the packages in `packages/`, and installs each beside the root's tarball into an empty project as a user would: its entry
 * points load by `import` and by `require`, which is one copy, and the program of its README prints what the README shows.
 *
 *   node scripts/check-packages.mjs    also checks the tarballs with publint and attw; the root must have been built
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { transformSync } from "esbuild";
import { packageNames } from "./build.mjs";
import { lintPackage, loadEntryPoints, pack } from "./check-package.mjs";
import { setupMemcached } from "./setup-memcached.mjs";
import { setupRedis } from "./setup-redis.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** What the README of a package installs beside it, and what its entry points load. */
const PEERS = {
  memcached: ["memcache-client@1"],
  observability: ["@opentelemetry/api@1", "prom-client@15"],
  postgres: ["@electric-sql/pglite@0.5"],
  "redis-bloom": ["ioredis@6"],
};

function run(command, args, cwd, env) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8", timeout: 180_000 });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}:\n${stdout}\n${stderr}`);
  return stdout;
}

/** Starts a server on a free port. Resolves to its port and how to stop it. */
async function start(program, argsOf) {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  await once(probe, "close");
  const server = spawn(program, argsOf(String(port)), { stdio: "ignore" });
  return { port, stop: () => server.kill() };
}

/** Builds and packs the packages. Returns their tarballs by name. */
export const packAll = () => new Map(packageNames().map((name) => [name, pack(join(ROOT, "packages", name))]));

/** The program in a README, and what it prints. */
function programOf(name) {
  const text = readFileSync(join(ROOT, "packages", name, "README.md"), "utf8");
  const [, program, output] = /```ts run\n([\s\S]*?)```\n\n```text\n([\s\S]*?)```/.exec(text) ?? [];
  if (program === undefined) throw new Error(`packages/${name}/README.md: expected a program and what it prints`);
  return { program: transformSync(program, { loader: "ts", format: "esm", target: "node20" }).code, output };
}

/** Installs each tarball of `tarballs` with that of the root, and runs the program of its README. */
export async function checkPackages(rootTarball, tarballs, env, report) {
  const redis = await start(setupRedis().server, (port) => ["--port", port, "--bind", "127.0.0.1", "--save", ""]);
  const user = process.getuid?.() === 0 ? ["-u", "root"] : [];
  const memcached = await start(setupMemcached().server, (port) => ["-p", port, "-l", "127.0.0.1", ...user]);
  const servers = { REDIS_URL: `redis://127.0.0.1:${redis.port}`, MEMCACHED: `127.0.0.1:${memcached.port}` };
  try {
    for (const [name, tarball] of tarballs) {
      const project = mkdtempSync(join(tmpdir(), `graphql-cached-${name}-`));
      writeFileSync(join(project, "package.json"), JSON.stringify({ name: "empty", private: true }));
      const peers = ["graphql@16", ...(PEERS[name] ?? [])];
      run("npm", ["install", "--silent", rootTarball, tarball, ...peers], project, env);
      if (name === "sqlite") run("node", ["-e", INSTALL_SQLITE], project, env);
      const { exports } = JSON.parse(readFileSync(join(ROOT, "packages", name, "package.json"), "utf8"));
      const points = Object.keys(exports).filter((path) => !path.endsWith(".json"));
      loadEntryPoints(
        points.map((path) => path.replace(".", `@graphql-cached/${name}`)),
        project,
        env,
      );
      const { program, output } = programOf(name);
      writeFileSync(join(project, "program.mjs"), program);
      const printed = run("node", ["--no-warnings", "program.mjs"], project, { ...env, ...servers });
      if (printed !== output) throw new Error(`the program of ${name}: expected "${output}", got "${printed}"`);
      rmSync(project, { recursive: true, force: true });
      report(`@graphql-cached/${name}: installs beside the root, loads, and its README's program runs`);
    }
  } finally {
    redis.stop();
    memcached.stop();
  }
}

/** Runs in the Node.js that is checked, which may have no SQLite. */
const INSTALL_SQLITE = `import(${JSON.stringify(new URL("./setup-sqlite.mjs", import.meta.url).href)}).then((setup) => setup.installSqlite("."));`;

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const tarballs = packAll();
  for (const tarball of tarballs.values()) lintPackage(tarball, ["./package.json", "./grafana-dashboard.json"]);
  await checkPackages(pack(ROOT, "--ignore-scripts"), tarballs, process.env, (line) => console.log(line));
}
