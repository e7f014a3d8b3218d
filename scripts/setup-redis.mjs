/**
 * Finds a Redis server for the tests, and fetches one where there is none. No dependencies, no root.
 *
 *   node scripts/setup-redis.mjs    prints the path of the server
 *
 * Looked for in this order: the program that REDIS_SERVER names; redis-server, then valkey-server on PATH; one fetched earlier into
 * node_modules/.cache. Where there is none, Debian's and Ubuntu's own package is unpacked there, checked by apt's signatures.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

const CACHE = fileURLToPath(new URL("../node_modules/.cache/redis-server", import.meta.url));
const OLDEST = [6, 2];
const DISTRIBUTION_PACKAGE = "redis-tools"; // Debian keeps the server's binary here, as redis-check-rdb.

/** Programs speak English here, whatever the user's language: what apt says is read. */
const run = (command, args, options = {}) =>
  spawnSync(command, args, { encoding: "utf8", env: { ...process.env, LC_ALL: "C" }, ...options });

/** The version of a server program, such as [7, 0, 15]; undefined where it is none, or cannot be run. */
function versionOf(server) {
  const { status, stdout } = run(server, ["--version"]);
  const found = /v=(\d+)\.(\d+)\.(\d+)/.exec(status === 0 ? stdout : "");
  return found?.slice(1).map(Number);
}

function isNewEnough([major, minor]) {
  return major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1]);
}

function usable(candidates) {
  for (const server of candidates) {
    const version = versionOf(server);
    if (version !== undefined && isNewEnough(version)) return { server, version: version.join(".") };
  }
  return undefined;
}

/** The libraries that the package needs and a small system may lack, by what apt says of it; those that apt itself needs are there. */
function missingLibraries(options) {
  const { stdout } = run("apt-cache", [...options, "depends", DISTRIBUTION_PACKAGE]);
  const names = [...(stdout ?? "").matchAll(/^\s*Depends: ([a-z0-9.+-]+)$/gm)].map(([, name]) => name);
  return names.filter((name) => /^(lib|lua)/.test(name) && !/^lib(c6|gcc|stdc\+\+|systemd)/.test(name));
}

/** Unpacks the distribution's packages below `home`. Throws with the reason where that cannot be done. */
function unpack(home) {
  const lists = join(home, "lists");
  const debs = join(home, "debs");
  const root = join(home, "root");
  for (const folder of [join(lists, "partial"), join(home, "archives", "partial"), debs, root])
    mkdirSync(folder, { recursive: true });
  const options = [
    "-o",
    `Dir::State::lists=${lists}`,
    "-o",
    `Dir::Cache=${home}`,
    "-o",
    "APT::Sandbox::User=",
    "-o",
    "Debug::NoLocking=1",
    "-o",
    "APT::Update::Error-Mode=any", // Else a mirror that cannot be reached is a warning, and the download fails with another reason.
  ];
  const must = (command, args) => {
    const { status, stderr, error } = run(command, args, { cwd: debs });
    if (status !== 0)
      throw new Error(`${command} ${args.at(-1)}: ${(stderr || error?.message || `exit code ${status}`).trim()}`);
  };
  must("apt-get", [...options, "-qq", "update"]);
  must("apt-get", [...options, "-qq", "download", DISTRIBUTION_PACKAGE, ...missingLibraries(options)]);
  for (const deb of readdirSync(debs).filter((name) => name.endsWith(".deb")))
    must("dpkg-deb", ["-x", join(debs, deb), root]);
  const bin = join(root, "usr", "bin");
  if (!existsSync(join(bin, "redis-server"))) symlinkSync("redis-check-rdb", join(bin, "redis-server"));
  for (const folder of [lists, debs, join(home, "archives")]) rmSync(folder, { recursive: true, force: true });
}

/** The fetched server's start script: it finds its libraries beside itself, wherever the folder is. */
const WRAPPER = `#!/bin/sh
home=$(dirname "$0")
libraries=$(for folder in "$home"/root/usr/lib/*/; do printf '%s:' "$folder"; done)
LD_LIBRARY_PATH="$libraries$LD_LIBRARY_PATH" exec "$home/root/usr/bin/redis-server" "$@"
`;

/**
 * Undefined once the cache folder holds a server that can be used; else why not. Processes may do this at the same time: the first to finish
 * wins, and what it has put there stays.
 */
export function fetchServer(cache, unpacked = unpack) {
  if (process.platform !== "linux" || run("apt-get", ["--version"]).status !== 0) return "this system has no apt-get";
  const fetched = join(cache, "redis-server");
  mkdirSync(dirname(cache), { recursive: true });
  const home = mkdtempSync(`${cache}-`);
  try {
    unpacked(home);
    const server = join(home, "redis-server");
    writeFileSync(server, WRAPPER, { mode: 0o755 });
    const version = versionOf(server);
    if (version === undefined) return `what was unpacked does not run: ${run(server, ["--version"]).stderr.trim()}`;
    if (!isNewEnough(version)) return `this system's package has version ${version.join(".")}`;
    // A folder is moved aside only if it is of no use, so that a server which another process starts from there is not taken from it.
    if (existsSync(cache) && usable([fetched]) === undefined) renameSync(cache, `${home}-useless`);
    renameSync(home, cache);
    return undefined;
  } catch (error) {
    return usable([fetched]) === undefined ? error.message : undefined;
  } finally {
    for (const folder of [home, `${home}-useless`]) rmSync(folder, { recursive: true, force: true });
  }
}

/** The server that REDIS_SERVER names, a path made absolute, since it is started from other folders. */
function checked(named) {
  const version = versionOf(named);
  if (version === undefined)
    throw new Error(`REDIS_SERVER names ${named}, which is no redis-server or valkey-server that runs here`);
  if (!isNewEnough(version))
    throw new Error(
      `REDIS_SERVER names a server of version ${version.join(".")}; at least ${OLDEST.join(".")} was expected`,
    );
  return { server: named, version: version.join(".") };
}

/**
 * A server to run, at least 6.2, as `{ server, version }`.
 * Throws where there is none: the message names the three ways to one.
 */
export function setupRedis({
  named = process.env.REDIS_SERVER,
  onPath = ["redis-server", "valkey-server"],
  cache = CACHE,
  fetch = fetchServer,
} = {}) {
  if (named) return checked(named.includes("/") ? resolve(named) : named);
  const candidates = [...onPath, join(cache, "redis-server")];
  const here = usable(candidates);
  if (here !== undefined) return here;
  const why = fetch(cache);
  const fetched = usable(candidates);
  if (fetched !== undefined) return fetched;
  throw new Error(
    [
      `no Redis server of version ${OLDEST.join(".")} or newer was found, and none could be fetched (${why}). Three ways to one:`,
      "- set REDIS_SERVER to the path of a redis-server or valkey-server",
      "- put one on PATH (Debian, Ubuntu: apt-get install redis-server; macOS: brew install redis; Fedora: dnf install valkey)",
      "- on Debian or Ubuntu, let this script fetch the package: it needs apt-get and a package mirror, no root",
    ].join("\n"),
  );
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  try {
    const { server, version } = setupRedis();
    console.log(`redis server ${version}: ${server}`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
