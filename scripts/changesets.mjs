/**
 * Changesets, whose program has a package of its own in scripts/release, so that the root install stays small.
 *
 *   npm run changeset                       asks how the version changes and what to tell users, and writes a file to .changeset/
 *   npm run changeset -- check origin/main  fails if the package has changed since then without a changeset
 *   npm run changeset -- version            prepares a release: sets the version everywhere, and moves what is unreleased and the
 *                                           text of all changesets under a heading with the version in CHANGELOG.md
 *
 * Changesets name the package graphql-cached only: the packages in packages/ always have its version. So Changesets ignores them, which would
 * take a new version of their peer for a breaking change.
 *
 * The first release takes the version of package.json and needs no changesets: "Unreleased" describes it as a whole.
 */
import { spawnSync } from "node:child_process";
import { copyFileSync, existsSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { packageNames } from "./build.mjs";
import { noteOf, unreleasedIn, versionsIn, withRelease } from "./changelog.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(ROOT, "scripts/release");
const CHANGELOG = join(ROOT, "CHANGELOG.md");

const read = (path) => readFileSync(join(ROOT, path), "utf8");
const packageVersion = () => JSON.parse(read("package.json")).version;

function run(command, args, cwd = ROOT) {
  const { status } = spawnSync(command, args, { cwd, stdio: "inherit" });
  if (status !== 0) process.exit(status ?? 1);
}

/** Runs the program of Changesets, which is installed first if its lock file has changed. */
function changeset(...args) {
  const [lock, installed] = [join(FOLDER, "package-lock.json"), join(FOLDER, "node_modules/.installed-lock.json")];
  if (!existsSync(installed) || !readFileSync(installed).equals(readFileSync(lock))) {
    run("npm", ["ci", "--silent", "--no-audit", "--no-fund"], FOLDER);
    copyFileSync(lock, installed);
  }
  run(join(FOLDER, "node_modules/.bin/changeset"), args);
}

/** Returns the paths of the changesets that wait for a release. */
export const pendingChangesets = () =>
  readdirSync(join(ROOT, ".changeset"))
    .filter((name) => name.endsWith(".md") && name !== "README.md")
    .map((name) => join(".changeset", name));

const isFirstRelease = () => versionsIn(readFileSync(CHANGELOG, "utf8")).length === 0;

function check(base) {
  for (const path of pendingChangesets()) noteOf(read(path));
  if (isFirstRelease())
    return console.log('Nothing is released yet: describe the change under "Unreleased" in CHANGELOG.md');
  changeset("status", `--since=${base}`);
  const changed = spawnSync("git", ["diff", "--name-only", `${base}...HEAD`], { cwd: ROOT, encoding: "utf8" }).stdout;
  if (/^packages\/[\w-]+\/src\//m.test(changed) && pendingChangesets().length === 0) {
    console.error("Packages in packages/ have changed without a changeset of graphql-cached: run `npm run changeset`");
    process.exit(1);
  }
}

/** Prepares a release. The changes are left to be reviewed and committed. */
function prepare() {
  const [before, isFirst, pending] = [packageVersion(), isFirstRelease(), pendingChangesets()];
  const changelog = readFileSync(CHANGELOG, "utf8");
  if (!isFirst && pending.length === 0) throw new Error("expected changesets in .changeset, found none");
  const notes = pending.map((path) => noteOf(read(path)));
  unreleasedIn(changelog);
  if (isFirst) for (const path of pending) rmSync(join(ROOT, path));
  else changeset("version");
  const version = packageVersion();
  const [date] = new Date().toISOString().split("T");
  writeFileSync(CHANGELOG, withRelease(changelog, { version, date, notes }));
  const lock = JSON.parse(read("package-lock.json"));
  lock.version = version;
  lock.packages[""].version = version;
  for (const name of packageNames()) {
    const path = join(ROOT, "packages", name, "package.json");
    const manifest = JSON.parse(readFileSync(path, "utf8"));
    for (const one of [manifest, lock.packages[`packages/${name}`]]) {
      one.version = version;
      one.peerDependencies["graphql-cached"] = version;
    }
    writeFileSync(path, `${JSON.stringify(manifest, null, 2)}\n`);
  }
  writeFileSync(join(ROOT, "package-lock.json"), `${JSON.stringify(lock, null, 2)}\n`);
  const files = spawnSync("git", ["ls-files", "src"], { cwd: ROOT, encoding: "utf8" }).stdout.split("\n");
  const source = files.find((path) => basename(path) === "version.ts");
  const text = read(source);
  if (!text.includes(`"${before}"`)) throw new Error(`${source}: expected the version ${before}`);
  writeFileSync(join(ROOT, source), text.replace(`"${before}"`, `"${version}"`));
  console.log(`prepared ${version}: review the changes, commit them to main, and push the tag v${version}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [command = "add", ...args] = process.argv.slice(2);
  if (command === "version") prepare();
  else if (command === "check") check(args[0] ?? "origin/main");
  else changeset(command, ...args);
}
