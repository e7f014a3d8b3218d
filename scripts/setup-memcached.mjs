/**
 * Finds a memcached server for the tests, and fetches one where there is none.
 *
 *   node scripts/setup-memcached.mjs    prints the path of the server
 */
import { printIfMain, serverFinder } from "./fetch-package.mjs";

const finder = serverFinder({
  program: "memcached",
  called: "memcached server",
  expected: "memcached",
  variable: "MEMCACHED_SERVER",
  version: /^memcached (\d+)\.(\d+)\.(\d+)/,
  oldest: [1, 5],
  onPath: ["memcached"],
  remedy: "Debian, Ubuntu: apt-get install memcached; macOS: brew install memcached; Fedora: dnf install memcached",
  distributionPackage: "memcached",
});

export const setupMemcached = finder.setup;

printIfMain(import.meta.url, "memcached server", setupMemcached);
