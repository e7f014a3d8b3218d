/**
 * Checks the Promela models of the protocol in test/models with spin: `node scripts/check-models.mjs`, or some
 * of them: `node scripts/check-models.mjs lease join`. Each model must hold as it is, and must fail with an
 * assertion under each of its switches, which break one rule each: a model that cannot fail proves nothing.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const MODELS = fileURLToPath(new URL("../test/models", import.meta.url));
/** Bounds of one search. All need far less. */
const MAX_DEPTH = 10_000;
const MAX_MEGABYTES = 2_000;
const HELD = "held";
const FAILED = "assertion violated";

/** The switches that the comment at the top of a model lists. Throws if the model does not use exactly these. */
function switchesOf(source, model) {
  const listed = [...source.matchAll(/^ \* {3}([A-Z_]+) /gm)].map(([, name]) => name);
  const conditions = source.match(/^#(?:ifdef|ifndef|if|elif) .*/gm)?.join("\n") ?? "";
  const used = [...new Set(conditions.match(/[A-Z][A-Z_]+/g))];
  const different = [
    ...listed.filter((name) => !used.includes(name)),
    ...used.filter((name) => !listed.includes(name)),
  ];
  if (listed.length === 0 || different.length > 0)
    throw new Error(`${model}: expected the comment to list the switches of the model, got a difference: ${different}`);
  return listed;
}

function run(command, args, cwd) {
  const { status, stdout, stderr, error } = spawnSync(command, args, { cwd, encoding: "utf8", maxBuffer: 2 ** 26 });
  if (error?.code === "ENOENT")
    throw new Error(`expected the programs spin and gcc, found no ${command}; on Debian: apt-get install spin gcc`);
  if (status !== 0) throw new Error(`${command} ${args.join(" ")} exited with ${status}:\n${stdout}\n${stderr}`);
  return stdout;
}

/** Searches all states of a model and returns what came out. */
function search(path, name) {
  const directory = mkdtempSync(join(tmpdir(), "graphql-cached-models-"));
  try {
    run("spin", [...(name === undefined ? [] : [`-D${name}`]), "-a", path], directory);
    run("gcc", ["-O2", "-w", "-DSAFETY", `-DMEMLIM=${MAX_MEGABYTES}`, "-o", "pan", "pan.c"], directory);
    const output = run("./pan", [`-m${MAX_DEPTH}`], directory);
    const [, states = "?"] = /(\d+(?:\.\d+e\+\d+)?) states, stored/.exec(output) ?? [];
    const isComplete = !/max search depth too small|Search not completed|reached .*MEMLIM/i.test(output);
    if (/pan:\d+: assertion violated/.test(output)) return { got: FAILED, states };
    if (/errors: 0\b/.test(output) && isComplete) return { got: HELD, states };
    return { got: /pan:\d+: (.*?) \(at depth/.exec(output)?.[1] ?? "search not completed", states };
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Checks the models of these names, or all. Throws if one of them does not come out as expected. */
export async function checkModels(report, names = []) {
  const all = readdirSync(MODELS)
    .filter((file) => file.endsWith(".pml"))
    .map((file) => file.replace(".pml", ""));
  const unknown = names.filter((name) => !all.includes(name));
  if (unknown.length > 0) throw new Error(`expected any of ${all.join(", ")}, got ${unknown.join(", ")}`);
  const row = (cells) => report(cells.map((cell, index) => cell.padEnd([15, 24, 19, 19, 0][index])).join(" "));
  row(["model", "switch", "expected", "got", "states"]);
  let different = 0;
  for (const model of names.length > 0 ? names : all) {
    const path = join(MODELS, `${model}.pml`);
    for (const name of [undefined, ...switchesOf(readFileSync(path, "utf8"), model)]) {
      const expected = name === undefined ? HELD : FAILED;
      const { got, states } = search(path, name);
      if (got !== expected) different++;
      row([model, name ?? "", expected, got, states]);
    }
  }
  if (different > 0) throw new Error(`${different} model(s) did not come out as expected`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  try {
    await checkModels((line) => console.log(line), process.argv.slice(2));
  } catch (error) {
    console.error(error.message);
    process.exit(1);
  }
}
