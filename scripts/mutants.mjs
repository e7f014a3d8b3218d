/**
 * Mutation tests: each mutant breaks one line that a promise rests on. Its tests must fail.
 * A mutant whose text is not found exactly once is an error, so that the list stays current.
 */
import { spawn } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { MUTANTS } from "./mutant-list.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
/** The largest share of mutants that may survive, each with an explanation. */
const MAX_SURVIVING_RATIO = 0.1;
/** Mutants that are tested at a time, each in a copy of the working tree. */
const COPIES = 2;
/** Test files with this text use the servers of the whole test run, whose start takes seconds. */
const USES_SERVERS = /redisWorld|memcachedWorld|onEachStore|serverContract|example-process|inject\(/;
const WITHOUT_SERVERS = "vitest.no-servers.config.ts";

/**
 * Runs the mutants from number `first` on. Throws if one survives without an explanation, or if too
 * many survive. A mutant counts as killed only if one of its tests fails, not if they cannot run.
 */
export async function runMutants(report, first = 0) {
  const mistakes = mistakesInList();
  if (mistakes.length > 0) throw new Error(`update scripts/mutant-list.mjs:\n${mistakes.join("\n")}`);
  const started = Date.now();
  const mutants = MUTANTS.slice(first);
  const directory = mkdtempSync(join(tmpdir(), "graphql-cached-mutants-"));
  const survivors = [];
  try {
    const copies = Array.from({ length: COPIES }, (_, nth) => copyOfTree(join(directory, String(nth))));
    await checkUnchanged(copies[0], mutants);
    const waiting = [...mutants];
    // All of them, so that no test runs in a copy that is removed.
    const runs = await Promise.allSettled(
      copies.map(async (copy) => {
        for (let mutant = waiting.shift(); mutant !== undefined; mutant = waiting.shift()) {
          const failed = await failedTestOf(copy, mutant).catch((error) => {
            waiting.length = 0;
            throw error;
          });
          if (failed === undefined) survivors.push(mutant);
          report(outcomeOf(mutant, failed));
        }
      }),
    );
    const broken = runs.find(({ status }) => status === "rejected");
    if (broken !== undefined) throw broken.reason;
  } finally {
    rmSync(directory, { recursive: true, force: true });
  }
  const explained = survivors.filter(({ explained }) => explained !== undefined);
  const unexplained = survivors.filter((mutant) => !explained.includes(mutant));
  const seconds = Math.round((Date.now() - started) / 1000);
  report(
    `${mutants.length - survivors.length} of ${mutants.length} mutants killed, ${explained.length} survivors explained, in ${seconds} s`,
  );
  if (unexplained.length > 0)
    throw new Error(
      `${unexplained.length} of ${mutants.length} mutants survived: ${unexplained.map(({ breaks }) => breaks).join("; ")}`,
    );
  if (survivors.length > MAX_SURVIVING_RATIO * MUTANTS.length)
    throw new Error(
      `expected at most a tenth of the mutants to survive, got ${survivors.length}; write tests for them`,
    );
}

function outcomeOf({ breaks, explained }, failed) {
  if (failed !== undefined) return `killed: ${breaks} (by "${failed}")`;
  return `SURVIVED: ${breaks}${explained === undefined ? "" : ` (explained: ${explained})`}`;
}

/** Returns why mutants cannot be made, a line for each of them. */
export function mistakesInList() {
  return MUTANTS.flatMap(({ file, from, to }) => {
    const count = readFileSync(join(ROOT, file), "utf8").split(from).length - 1;
    if (from === to) return [`${file}: ${JSON.stringify(from)} is replaced by itself`];
    return count === 1 ? [] : [`${file}: expected ${JSON.stringify(from)} exactly once, found it ${count} times`];
  });
}

function copyOfTree(copy) {
  cpSync(ROOT, copy, { recursive: true, filter: (path) => !/node_modules|\/\.git(\/|$)|\/dist(\/|$)/.test(path) });
  symlinkSync(join(ROOT, "node_modules"), join(copy, "node_modules"));
  writeFileSync(
    join(copy, WITHOUT_SERVERS),
    'import config from "./vitest.config.ts";\nexport default { ...config, test: { ...config.test, globalSetup: [] } };\n',
  );
  return copy;
}

/** Throws if a test fails without a mutant. */
async function checkUnchanged(copy, mutants) {
  const files = [...new Set(mutants.flatMap(({ tests }) => tests))];
  for (const withServers of [false, true]) {
    const part = files.filter((file) => usesServers(file) === withServers);
    if (part.length === 0) continue;
    const failed = await runTests(copy, part, withServers);
    if (failed !== undefined) throw new Error(`expected every test to pass without a mutant, but "${failed}" failed`);
  }
}

/** Returns the title of a test that fails with the mutant. Undefined: it survives. */
async function failedTestOf(copy, { file, from, to, tests }) {
  const path = join(copy, file);
  const source = readFileSync(path, "utf8");
  writeFileSync(
    path,
    source.replace(from, () => to),
  );
  try {
    return await runTests(copy, tests, tests.some(usesServers));
  } finally {
    writeFileSync(path, source);
  }
}

const usesServers = (file) => USES_SERVERS.test(readFileSync(join(ROOT, file), "utf8"));

/** Runs test files. Returns the title of the first test that failed, or undefined. Throws if they cannot run. */
async function runTests(cwd, files, withServers) {
  const config = withServers ? [] : ["--config", WITHOUT_SERVERS];
  const { status, stdout, stderr } = await execute(
    process.execPath,
    [join(ROOT, "node_modules/vitest/vitest.mjs"), "run", "--bail=1", "--reporter=json", ...config, ...files],
    cwd,
  );
  if (status === 0) return undefined;
  const { testResults } = JSON.parse(/^\{"numTotal.*$/m.exec(stdout)?.[0] ?? '{"testResults":[]}');
  const failed = testResults.flatMap(({ assertionResults }) => assertionResults).find((one) => one.status === "failed");
  if (failed === undefined)
    throw new Error(`${files.join(", ")} could not run:\n${`${stdout}\n${stderr}`.slice(-2_000)}`);
  return failed.title;
}

function execute(command, args, cwd) {
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd, stdio: ["ignore", "pipe", "pipe"] });
    let [stdout, stderr] = ["", ""];
    child.stdout.setEncoding("utf8").on("data", (text) => (stdout += text));
    child.stderr.setEncoding("utf8").on("data", (text) => (stderr += text));
    child.on("error", reject);
    child.on("close", (status) => resolve({ status, stdout, stderr }));
  });
}
