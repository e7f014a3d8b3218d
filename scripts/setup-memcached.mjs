/**
 * Finds a memcached server for the tests, and downloads one if there is none.
 *
 *   node scripts/setup-memcached.mjs    prints the path of the server
 */
import { printIfMain, serverFinder } from "./fetch-package.mjs";

const finder = serverFinder({
  program: "memcached",
  title: "memcached server",
  programs: "memcached",
  variable: "MEMCACHED_SERVER",
  version: /^memcached (\d+)\.(\d+)\.(\d+)/,
  oldest: [1, 5],
  onPath: ["memcached"],
  install: "Debian, Ubuntu: apt-get install memcached; macOS: brew install memcached; Fedora: dnf install memcached",
  distributionPackage: "memcached",
});

export const setupMemcached = finder.setup;

printIfMain(import.meta.url, "memcached server", setupMemcached);
