/**
 * Finds a Valkey server of version 8 or newer for the tests, and downloads one if there is none.
 *
 *   node scripts/setup-valkey.mjs                prints the path of the server
 *   node scripts/setup-valkey.mjs command …      runs a command whose tests start it in the place of Redis
 */
import { spawnSync } from "node:child_process";
import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { printIfMain, serverFinder } from "./fetch-package.mjs";

const finder = serverFinder({
  program: "valkey-server",
  title: "Valkey server",
  programs: "valkey-server",
  variable: "VALKEY_SERVER",
  version: /^Valkey .*v=(\d+)\.(\d+)\.(\d+)/,
  oldest: [8, 0],
  onPath: ["valkey-server"],
  install: "Debian, Ubuntu: apt-get install valkey-server; macOS: brew install valkey; Fedora: dnf install valkey",
  distributionPackage: "valkey-tools", // On Debian this package contains the server's binary, as valkey-check-rdb.
  mayBeBackport: true,
  arrange(root) {
    const path = join(root, "usr", "bin", "valkey-server");
    if (!existsSync(path)) symlinkSync("valkey-check-rdb", path);
  },
});

export const setupValkey = finder.setup;

const [script, ...command] = process.argv.slice(1);
if (command.length === 0) printIfMain(import.meta.url, "Valkey server", setupValkey);
else if (script === fileURLToPath(import.meta.url)) {
  const { server, version } = setupValkey();
  console.log(`Valkey ${version}`);
  const env = { ...process.env, REDIS_SERVER: server };
  process.exitCode = spawnSync(command[0], command.slice(1), { env, stdio: "inherit" }).status ?? 1;
}
