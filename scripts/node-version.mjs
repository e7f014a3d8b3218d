/** Other versions of Node.js than the one that runs, from the npm registry. */
import { spawnSync } from "node:child_process";
import { chmodSync, existsSync, mkdirSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Installs a version once, below node_modules/.cache, and returns an environment whose `node`, `npm` and `npx` use it. */
export function environmentOf(version) {
  const home = join(ROOT, "node_modules/.cache/nodes", version);
  const bin = join(home, "bin");
  const name = `node-${process.platform === "win32" ? "win" : process.platform}-${process.arch}`;
  const node = join(home, "node_modules", name, "bin/node");
  if (!existsSync(node)) {
    mkdirSync(home, { recursive: true });
    writeFileSync(join(home, "package.json"), JSON.stringify({ name: "node", private: true }));
    runNpm(["install", "--silent", "--no-save", `${name}@${version}`], home);
  }
  mkdirSync(bin, { recursive: true });
  const npm = join(runNpm(["root", "-g"], ROOT).trim(), "npm/bin");
  const script = (target) => `#!/bin/sh\nexec "${node}" ${target} "$@"\n`;
  for (const [command, target] of [
    ["node", ""],
    ["npm", `"${npm}/npm-cli.js"`],
    ["npx", `"${npm}/npx-cli.js"`],
  ]) {
    writeFileSync(join(bin, command), script(target));
    chmodSync(join(bin, command), 0o755);
  }
  return { ...process.env, PATH: `${bin}${delimiter}${process.env.PATH}` };
}

function runNpm(args, cwd) {
  const { status, stdout, stderr } = spawnSync("npm", args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`npm ${args.join(" ")} exited with ${status}:\n${stdout}\n${stderr}`);
  return stdout;
}
