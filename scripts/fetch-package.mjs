/**
 * Finds the program of a server that the tests need. Looks in this order: the path in an environment
 * variable, PATH, an earlier download. If there is none, it downloads the package of the Linux
 * distribution, whose signature apt checks, and unpacks it below node_modules/.cache. It has no
 * dependencies and does not need root.
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Runs a program in the C locale, since the output of apt is parsed. */
const run = (command, args, options = {}) =>
  spawnSync(command, args, { encoding: "utf8", env: { ...process.env, LC_ALL: "C" }, ...options });

/**
 * Returns the libraries that a package depends on, except those that apt itself needs and every
 * system has.
 */
function requiredLibraries(options, name) {
  const { stdout } = run("apt-cache", [...options, "depends", name]);
  const names = [...(stdout ?? "").matchAll(/^\s*Depends: ([a-z0-9.+-]+)$/gm)].map(([, dependency]) => dependency);
  return names.filter((each) => /^(lib|lua)/.test(each) && !/^lib(c6|gcc|stdc\+\+|systemd)/.test(each));
}

/**
 * Returns a source of packages that the system has not: the backports of its release. Undefined if it
 * has them, or no release with a name.
 */
function backportsOf(options) {
  const { stdout } = run("apt-get", [...options, "update", "--print-uris"]);
  const suites = [...(stdout ?? "").matchAll(/^'(\S+)\/dists\/([a-z-]+)\/InRelease'/gm)];
  const [, mirror, release] = suites.find(([, , suite]) => !suite.includes("-")) ?? [];
  if (release === undefined || suites.some(([, , suite]) => suite === `${release}-backports`)) return undefined;
  return `deb ${mirror} ${release}-backports main\n`;
}

/**
 * Downloads the package `name` with its libraries and unpacks them into `home`/root, from the backports
 * as well if `mayBeBackport`. Throws if a step fails.
 */
function unpackPackage(home, name, mayBeBackport) {
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
    "APT::Update::Error-Mode=any", // By default an unreachable mirror is only a warning, and the download fails for another reason.
  ];
  const backports = mayBeBackport ? backportsOf(options) : undefined;
  if (backports !== undefined) {
    const sources = join(home, "sources.list");
    const ofSystem = "/etc/apt/sources.list";
    writeFileSync(sources, `${existsSync(ofSystem) ? readFileSync(ofSystem, "utf8") : ""}\n${backports}`);
    options.push("-o", `Dir::Etc::sourcelist=${sources}`);
  }
  const runOrThrow = (command, args) => {
    const { status, stderr, error } = run(command, args, { cwd: debs });
    if (status !== 0)
      throw new Error(`${command} ${args.at(-1)}: ${(stderr || error?.message || `exit code ${status}`).trim()}`);
  };
  runOrThrow("apt-get", [...options, "-qq", "update"]);
  runOrThrow("apt-get", [...options, "-qq", "download", name, ...requiredLibraries(options, name)]);
  for (const deb of readdirSync(debs).filter((file) => file.endsWith(".deb")))
    runOrThrow("dpkg-deb", ["-x", join(debs, deb), root]);
  for (const folder of [lists, debs, join(home, "archives")]) rmSync(folder, { recursive: true, force: true });
}

/**
 * Returns the start script of a downloaded server. It uses the libraries in its own folder, wherever
 * that folder is.
 */
const startScriptOf = (program) => `#!/bin/sh
home=$(dirname "$0")
libraries=$(for folder in "$home"/root/usr/lib/*/; do printf '%s:' "$folder"; done)
LD_LIBRARY_PATH="$libraries$LD_LIBRARY_PATH" exec "$home/root/usr/bin/${program}" "$@"
`;

/**
 * Returns functions that find and download a server, which `server` describes:
 *   program    file name of the program, in the package and in the cache
 *   title      name of the server in messages
 *   programs   names of the accepted programs in messages
 *   variable   environment variable with the path of a program
 *   version    regular expression for the output of `--version`; groups: major, minor, patch
 *   oldest     oldest accepted version, [major, minor]
 *   onPath     names of the program on PATH
 *   install    how to install the program, for messages
 *   distributionPackage   name of the package
 *   mayBeBackport         whether it may come from the backports of the release
 *   arrange    function (root) that prepares the unpacked package if its program has another name
 */
export function serverFinder(server) {
  const { program, variable, oldest, version } = server;
  const home = fileURLToPath(new URL(`../node_modules/.cache/${program}`, import.meta.url));

  /**
   * Returns the version of a program, such as [7, 0, 15]. Undefined if it is another program or does
   * not run.
   */
  const versionOf = (path) => {
    const { status, stdout } = run(path, ["--version"]);
    return version
      .exec(status === 0 ? stdout : "")
      ?.slice(1)
      .map(Number);
  };
  const isNewEnough = ([major, minor]) => major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
  const firstUsable = (candidates) => {
    for (const path of candidates) {
      const found = versionOf(path);
      if (found !== undefined && isNewEnough(found)) return { server: path, version: found.join(".") };
    }
    return undefined;
  };

  /** Returns the server at the path in the environment variable. Throws if it cannot be used. */
  const checkNamed = (named) => {
    const found = versionOf(named);
    if (found === undefined)
      throw new Error(`${variable}: expected a ${server.programs} that runs on this system, got ${named}`);
    if (!isNewEnough(found))
      throw new Error(
        `${variable}: expected a server of version ${oldest.join(".")} or newer, got version ${found.join(".")}`,
      );
    return { server: named, version: found.join(".") };
  };

  const unpack = (folder) => {
    unpackPackage(folder, server.distributionPackage, server.mayBeBackport === true);
    server.arrange?.(join(folder, "root"));
  };

  /**
   * Downloads a server into the cache folder. Returns undefined if the folder then holds a usable
   * server, otherwise the reason why not. Processes may run this concurrently: the first to finish
   * installs its server, and the others keep it.
   */
  function fetchServer(cache, unpacked = unpack) {
    if (process.platform !== "linux" || run("apt-get", ["--version"]).status !== 0) return "this system has no apt-get";
    const fetched = join(cache, program);
    mkdirSync(dirname(cache), { recursive: true });
    const folder = mkdtempSync(`${cache}-`);
    try {
      unpacked(folder);
      const path = join(folder, program);
      writeFileSync(path, startScriptOf(program), { mode: 0o755 });
      const found = versionOf(path);
      if (found === undefined) return `the unpacked program does not run: ${run(path, ["--version"]).stderr.trim()}`;
      if (!isNewEnough(found)) return `this system's package has version ${found.join(".")}`;
      // A usable folder is never moved, since another process may be starting a server from it.
      if (existsSync(cache) && firstUsable([fetched]) === undefined) renameSync(cache, `${folder}-unusable`);
      renameSync(folder, cache);
      return undefined;
    } catch (error) {
      return firstUsable([fetched]) === undefined ? error.message : undefined;
    } finally {
      for (const leftover of [folder, `${folder}-unusable`]) rmSync(leftover, { recursive: true, force: true });
    }
  }

  /**
   * Returns a server to run, as `{ server, version }`. Downloads one if necessary.
   * Throws if there is none, with a message that lists three ways to provide one.
   */
  function setup({ named = process.env[variable], onPath = server.onPath, cache = home, fetch = fetchServer } = {}) {
    // Servers are started from other folders, so a path is made absolute.
    if (named) return checkNamed(named.includes("/") ? resolve(named) : named);
    const candidates = [...onPath, join(cache, program)];
    const installed = firstUsable(candidates);
    if (installed !== undefined) return installed;
    const reason = fetch(cache);
    const fetched = firstUsable(candidates);
    if (fetched !== undefined) return fetched;
    throw new Error(
      [
        `expected a ${server.title} of version ${oldest.join(".")} or newer, found none and could not download one (${reason}). To provide one:`,
        `- set ${variable} to the path of a ${server.programs}`,
        `- install one on PATH (${server.install})`,
        "- on Debian or Ubuntu, let this script download the package: it needs apt-get and a package mirror, but not root",
      ].join("\n"),
    );
  }

  return { setup, fetchServer };
}

/**
 * Prints the path of the server, or why there is none, if `script` is the program that node was
 * started with.
 */
export function printIfMain(script, title, setup) {
  if (script !== pathToFileURL(process.argv[1] ?? "").href) return;
  try {
    const { server, version } = setup();
    console.log(`${title} ${version}: ${server}`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
