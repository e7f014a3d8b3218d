/**
 * Finds the program of a server that the tests need, and fetches it where there is none: the distribution's own package is unpacked below
 * node_modules/.cache, checked by apt's signatures. No dependencies, no root.
 *
 * Looked for in this order: the program that an environment variable names; PATH; what was fetched earlier.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";

/** Programs speak English here, whatever the user's language: what apt says is read. */
const run = (command, args, options = {}) =>
  spawnSync(command, args, { encoding: "utf8", env: { ...process.env, LC_ALL: "C" }, ...options });

/** The libraries that a package needs and a small system may lack, by what apt says of it; those that apt itself needs are there. */
function missingLibraries(options, name) {
  const { stdout } = run("apt-cache", [...options, "depends", name]);
  const names = [...(stdout ?? "").matchAll(/^\s*Depends: ([a-z0-9.+-]+)$/gm)].map(([, found]) => found);
  return names.filter((found) => /^(lib|lua)/.test(found) && !/^lib(c6|gcc|stdc\+\+|systemd)/.test(found));
}

/** Unpacks the distribution's package `name` and its libraries into `home`/root. Throws with the reason where that cannot be done. */
function unpackPackage(home, name) {
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
  must("apt-get", [...options, "-qq", "download", name, ...missingLibraries(options, name)]);
  for (const deb of readdirSync(debs).filter((file) => file.endsWith(".deb")))
    must("dpkg-deb", ["-x", join(debs, deb), root]);
  for (const folder of [lists, debs, join(home, "archives")]) rmSync(folder, { recursive: true, force: true });
}

/** The fetched server's start script: it finds its libraries beside itself, wherever the folder is. */
const wrapperOf = (program) => `#!/bin/sh
home=$(dirname "$0")
libraries=$(for folder in "$home"/root/usr/lib/*/; do printf '%s:' "$folder"; done)
LD_LIBRARY_PATH="$libraries$LD_LIBRARY_PATH" exec "$home/root/usr/bin/${program}" "$@"
`;

/**
 * What finds and fetches one server:
 *   program    the file's name, in the package and in the cache
 *   called     what the server is called in messages, with its article, and `expected` what a variable's program should have been
 *   variable   the environment variable that names one
 *   version    what `--version` prints, as an expression with three numbers; `oldest` is [major, minor]
 *   onPath     the names it may have on PATH; `remedy` says how it gets there
 *   distributionPackage, and `arrange(root)` for a package that names the program otherwise
 */
export function serverFinder(server) {
  const { program, variable, oldest, version } = server;
  const home = fileURLToPath(new URL(`../node_modules/.cache/${program}`, import.meta.url));

  /** The version of a server program, such as [7, 0, 15]; undefined where it is none, or cannot be run. */
  const versionOf = (path) => {
    const { status, stdout } = run(path, ["--version"]);
    return version
      .exec(status === 0 ? stdout : "")
      ?.slice(1)
      .map(Number);
  };
  const isNewEnough = ([major, minor]) => major > oldest[0] || (major === oldest[0] && minor >= oldest[1]);
  const usable = (candidates) => {
    for (const path of candidates) {
      const found = versionOf(path);
      if (found !== undefined && isNewEnough(found)) return { server: path, version: found.join(".") };
    }
    return undefined;
  };

  /** The server that the variable names, a path made absolute, since it is started from other folders. */
  const checked = (named) => {
    const found = versionOf(named);
    if (found === undefined)
      throw new Error(`${variable} names ${named}, which is no ${server.expected} that runs here`);
    if (!isNewEnough(found))
      throw new Error(
        `${variable} names a server of version ${found.join(".")}; at least ${oldest.join(".")} was expected`,
      );
    return { server: named, version: found.join(".") };
  };

  const unpack = (folder) => {
    unpackPackage(folder, server.distributionPackage);
    server.arrange?.(join(folder, "root"));
  };

  /**
   * Undefined once the cache folder holds a server that can be used; else why not. Processes may do this at the same time: the first to finish
   * wins, and what it has put there stays.
   */
  function fetchServer(cache, unpacked = unpack) {
    if (process.platform !== "linux" || run("apt-get", ["--version"]).status !== 0) return "this system has no apt-get";
    const fetched = join(cache, program);
    mkdirSync(dirname(cache), { recursive: true });
    const folder = mkdtempSync(`${cache}-`);
    try {
      unpacked(folder);
      const path = join(folder, program);
      writeFileSync(path, wrapperOf(program), { mode: 0o755 });
      const found = versionOf(path);
      if (found === undefined) return `what was unpacked does not run: ${run(path, ["--version"]).stderr.trim()}`;
      if (!isNewEnough(found)) return `this system's package has version ${found.join(".")}`;
      // A folder is moved aside only if it is of no use, so that a server which another process starts from there is not taken from it.
      if (existsSync(cache) && usable([fetched]) === undefined) renameSync(cache, `${folder}-useless`);
      renameSync(folder, cache);
      return undefined;
    } catch (error) {
      return usable([fetched]) === undefined ? error.message : undefined;
    } finally {
      for (const left of [folder, `${folder}-useless`]) rmSync(left, { recursive: true, force: true });
    }
  }

  /**
   * A server to run, as `{ server, version }`.
   * Throws where there is none: the message names the three ways to one.
   */
  function setup({ named = process.env[variable], onPath = server.onPath, cache = home, fetch = fetchServer } = {}) {
    if (named) return checked(named.includes("/") ? resolve(named) : named);
    const candidates = [...onPath, join(cache, program)];
    const here = usable(candidates);
    if (here !== undefined) return here;
    const why = fetch(cache);
    const fetched = usable(candidates);
    if (fetched !== undefined) return fetched;
    throw new Error(
      [
        `no ${server.called} of version ${oldest.join(".")} or newer was found, and none could be fetched (${why}). Three ways to one:`,
        `- set ${variable} to the path of a ${server.expected}`,
        `- put one on PATH (${server.remedy})`,
        "- on Debian or Ubuntu, let this script fetch the package: it needs apt-get and a package mirror, no root",
      ].join("\n"),
    );
  }

  return { setup, fetchServer };
}

/** Where `script` is the program that node was started with: prints the path of the server, or why there is none. */
export function printIfMain(script, called, setup) {
  if (script !== pathToFileURL(process.argv[1] ?? "").href) return;
  try {
    const { server, version } = setup();
    console.log(`${called} ${version}: ${server}`);
  } catch (error) {
    console.error(error.message);
    process.exitCode = 1;
  }
}
