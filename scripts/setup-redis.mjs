/**
 * Finds a Redis server for the tests, and downloads one if there is none.
 *
 *   node scripts/setup-redis.mjs    prints the path of the server
 */
import { existsSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { printIfMain, serverFinder } from "./fetch-package.mjs";

const finder = serverFinder({
  program: "redis-server",
  title: "Redis server",
  programs: "redis-server or valkey-server",
  variable: "REDIS_SERVER",
  version: /v=(\d+)\.(\d+)\.(\d+)/,
  oldest: [6, 2],
  onPath: ["redis-server", "valkey-server"],
  install: "Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis; Fedora: dnf install valkey",
  distributionPackage: "redis-tools", // On Debian this package contains the server's binary, as redis-check-rdb.
  arrange(root) {
    const path = join(root, "usr", "bin", "redis-server");
    if (!existsSync(path)) symlinkSync("redis-check-rdb", path);
  },
});

export const setupRedis = finder.setup;
export const fetchServer = finder.fetchServer;

printIfMain(import.meta.url, "Redis server", setupRedis);
