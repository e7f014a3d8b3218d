/** Runs the packed package on Bun and Deno, beside Node.js. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { setupRedis } from "./setup-redis.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** From the npm registry, whose packages contain the programs. */
const RUNTIMES = { bun: "1.4.5", deno: "2.9.6" };
const PEERS = ["graphql@16", "@apollo/server@5", "graphql-yoga@5", "ioredis@6", "redis@6"];
const TIMEOUT_MS = 180_000;

/** Installs packages into a folder, and adds an empty project to it if necessary. */
function install(folder, packages) {
  mkdirSync(folder, { recursive: true });
  const manifest = {
    name: "empty",
    private: true,
    allowScripts: Object.fromEntries(packages.map((name) => [name, true])),
  };
  if (!existsSync(join(folder, "package.json"))) writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
  const { status, stdout, stderr } = spawnSync("npm", ["install", "--silent", ...packages], {
    cwd: folder,
    encoding: "utf8",
  });
  if (status !== 0) throw new Error(`npm install ${packages.join(" ")} exited with ${status}:\n${stdout}\n${stderr}`);
}

/** Installs a runtime once, below node_modules/.cache, and returns its program. */
function runtimeOf(name) {
  const version = RUNTIMES[name];
  const home = join(ROOT, "node_modules/.cache/runtimes", `${name}-${version}`);
  const program = join(home, "node_modules/.bin", name);
  if (!existsSync(program)) install(home, [`${name}@${version}`]);
  return program;
}

/** Starts an empty Redis server. Resolves to its port and how to stop it. */
async function startRedis() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  const server = spawn(setupRedis().server, ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""]);
  for await (const chunk of server.stdout) if (`${chunk}`.includes("Ready to accept connections")) break;
  return { port, stop: () => server.kill() };
}

/** Installs the tarballs of the root and of @graphql-cached/sqlite into an empty project, and runs the same program on each runtime. */
export async function checkRuntimes(tarballs, report) {
  const project = mkdtempSync(join(tmpdir(), "graphql-cached-runtimes-"));
  const { port, stop } = await startRedis();
  try {
    install(project, [...tarballs, ...PEERS]);
    copyFileSync(join(ROOT, "scripts/runtime-program.mjs"), join(project, "program.mjs"));
    for (const name of Object.keys(RUNTIMES)) {
      const folder = mkdtempSync(join(project, "folder-"));
      const args = [...(name === "deno" ? ["run", "--allow-all"] : []), "program.mjs", `${port}`, folder];
      const options = { cwd: project, encoding: "utf8", timeout: TIMEOUT_MS };
      const { status, stdout, stderr } = spawnSync(runtimeOf(name), args, options);
      if (status !== 0) throw new Error(`the program exited with ${status} on ${name}:\n${stdout}\n${stderr}`);
      for (const line of stdout.trim().split("\n")) report(`${name} ${RUNTIMES[name]}, ${line}`);
    }
  } finally {
    stop();
    rmSync(project, { recursive: true, force: true });
  }
}
