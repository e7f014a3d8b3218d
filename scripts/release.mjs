/**
 * Publishes the package and those in packages/ to npm, or shows what would be published.
 *
 *   npm run release                checks and packs the package, and prints what `npm publish --dry-run` says
 *   npm run release -- --built     the same, with `dist` as it is, and without the checks that `.ci/run` has made before
 *   npm run release -- --publish   publishes with provenance; in CI, which npm trusts by OpenID Connect, without a token
 *
 * A dry run also lists what would keep the commit from being published, and succeeds.
 */
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { packageNames } from "./build.mjs";
import { unreleasedIn, versionsIn } from "./changelog.mjs";
import { pendingChangesets } from "./changesets.mjs";
import { checkPackage, pack } from "./check-package.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const { values: options } = parseArgs({
  options: { publish: { type: "boolean" }, built: { type: "boolean" }, "dry-run": { type: "boolean" } },
});
const { name, version } = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8"));

const capture = (command, args) => spawnSync(command, args, { cwd: ROOT, encoding: "utf8" });

function run(command, ...args) {
  console.log(`$ ${command} ${args.join(" ")}`);
  const { status } = spawnSync(command, args, { cwd: ROOT, stdio: "inherit" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}`);
}

function outputIn(cwd, command, ...args) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, encoding: "utf8" });
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}:\n${stdout}${stderr}`);
  return stdout;
}

/** Returns what keeps the commit that is checked out from being published. */
function obstacles() {
  const changelog = readFileSync(join(ROOT, "CHANGELOG.md"), "utf8");
  const [newest] = versionsIn(changelog);
  const changed = capture("git", ["status", "--porcelain"]).stdout.trim();
  const isOnMain =
    capture("git", ["branch", "--show-current"]).stdout.trim() === "main" ||
    capture("git", ["merge-base", "--is-ancestor", "HEAD", "origin/main"]).status === 0;
  const tag = process.env.GITHUB_REF_TYPE === "tag" ? process.env.GITHUB_REF_NAME : undefined;
  return [
    changed !== "" && `expected a clean working tree, got\n${changed}`,
    !isOnMain && "expected a commit of main",
    newest !== version && `expected the newest version in CHANGELOG.md to be ${version}, got ${newest ?? "none"}`,
    unreleasedIn(changelog) !== "" && 'expected nothing under "Unreleased" in CHANGELOG.md',
    pendingChangesets().length > 0 && `expected no changesets, got ${pendingChangesets().join(", ")}`,
    tag !== undefined && tag !== `v${version}` && `expected the tag v${version}, got ${tag}`,
  ].filter(Boolean);
}

/** The folders of what is published: the root first, which the others need. */
const FOLDERS = [ROOT, ...packageNames().map((name) => join(ROOT, "packages", name))];

/** Whether npm has this version of the package in a folder. */
function isPublished(folder) {
  const { name } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return capture("npm", ["view", `${name}@${version}`, "version"]).stdout.trim() === version;
}

/** Packs what is built as `npm publish` does, and says what it would send. */
function summary(folder) {
  const args = [
    "publish",
    "--dry-run",
    "--json",
    "--silent",
    "--ignore-scripts",
    "--fetch-retries=0",
    // npm may have this version already, which npm 11 refuses in a dry run as well.
    "--force",
    "--provenance",
    "--access",
    "public",
  ];
  const published = JSON.parse(outputIn(folder, "npm", ...args));
  const { id, size, unpackedSize, entryCount } = published.id === undefined ? Object.values(published)[0] : published;
  return `${id}: ${entryCount} files, ${Math.round(size / 1024)} KiB, unpacked ${Math.round(unpackedSize / 1024)} KiB`;
}

const refused = obstacles();
if (options.publish && options.built) refused.push("expected --publish without --built");
if (options.publish && refused.length > 0) {
  console.error(`${name} ${version} is not published:\n- ${refused.join("\n- ")}`);
  process.exit(1);
}
if (options.built && !existsSync(join(ROOT, "dist/index.js")))
  throw new Error("--built: expected dist/, run `npm run build`");
if (!options.built) for (const script of ["check:package", "check:packages"]) run("npm", "run", "--silent", script);
run(process.execPath, "scripts/api-report.mjs", "--check", "--built");
if (options.built) for (const folder of FOLDERS) console.log(summary(folder));
else {
  const tarballs = FOLDERS.map((folder) => pack(folder, "--ignore-scripts"));
  checkPackage(tarballs[0]);
  for (const [nth, tarball] of tarballs.entries()) {
    // A run that was interrupted goes on with what it has not published.
    if (options.publish && isPublished(FOLDERS[nth])) continue;
    const dry = options.publish ? [] : ["--dry-run", "--force"];
    run("npm", "publish", tarball, "--provenance", "--access", "public", ...dry);
  }
}
if (options.publish) console.log(`published ${name} ${version}`);
else if (refused.length === 0) console.log(`dry run: ${name} ${version} can be published`);
else console.log(`dry run: ${name} ${version} cannot be published yet:\n- ${refused.join("\n- ")}`);
