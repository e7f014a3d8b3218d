/**
 * The slow checks, run before a release: `npm run verify`, or some of them: `npm run verify -- package nodes 26`.
 *
 *   package  packs the package and installs it engine-strict into an empty project, on every Node version
 *            and with old and new versions of graphql and Apollo Server
 *   packages packs the packages beside the root and installs each into an empty project, on every Node version, where the program
 *            of its README runs
 *   runtimes installs the packed package into an empty project and runs a program on Bun and Deno: graphql-js, Apollo
 *            Server and Yoga, several processes on ioredis, node-redis and SQLite, the command line
 *   nodes    runs both commands of the README on a fresh clone of HEAD, on every Node version
 *   graphql  runs all tests with the oldest and the newest versions of graphql and Apollo Server that the package accepts,
 *            but those of packages that do not accept them themselves
 *   ioredis  runs the tests of Redis with the oldest and the newest ioredis 5
 *   valkey   runs the tests of Redis on Valkey
 *   faults   runs processes through faults on real servers, and the same with a check removed, which must
 *            show stale reads; then repeats the tests with faults three times
 *   slow     runs the tests that `npm test` leaves out, which have a smaller proof there
 *   random   asks more random queries of random schemas than `npm test` does
 *   mutants  changes what the promises rest on, and expects tests to fail
 *   models   checks the models of the protocol with spin
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { checkModels } from "./check-models.mjs";
import { checkPackage, namesOf, PEER_VERSIONS, pack } from "./check-package.mjs";
import { checkPackages, packAll } from "./check-packages.mjs";
import { checkRuntimes } from "./check-runtimes.mjs";
import { runMutants } from "./mutants.mjs";
import { environmentOf } from "./node-version.mjs";
import { setupValkey } from "./setup-valkey.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const args = process.argv.slice(2);
const wantedVersions = args.filter((arg) => /^\d/.test(arg));
const NODE_VERSIONS = ["20.19.6", "22.23.3", "24.21.0", "26.10.0"].filter(
  (version) => wantedVersions.length === 0 || wantedVersions.some((wanted) => version.startsWith(wanted)),
);
const untested = wantedVersions.filter((wanted) => !NODE_VERSIONS.some((version) => version.startsWith(wanted)));
if (untested.length > 0) {
  console.error(`expected versions of Node.js that are tested, got ${untested.join(", ")}`);
  process.exit(2);
}
const START_TIMEOUT_MS = 180_000;
/**
 * Other versions than the installed ones of graphql and what needs it, and the tests that do not run with them: of servers whose own peer
 * range excludes them (@apollo/server and mercurius accept graphql 16 only), and of an option that Apollo Server 4 lacks.
 */
const GRAPHQL_VERSIONS = [
  {
    packages: ["graphql@16.6.0", "@apollo/server@4.11.0", "@apollo/server-plugin-response-cache@4"],
    excluded: ["test/apollo/incremental.test.ts"],
  },
  { packages: ["graphql@16.11.0"], excluded: [] },
  {
    packages: ["graphql@17.1.0"],
    excluded: ["test/apollo", "test/servers/apollo.test.ts", "test/servers/mercurius.test.ts"],
  },
];
const RANDOM_TESTS = ["test/property", "test/leaks/composed.test.ts", "test/redis/stored-responses.test.ts"];
const FAULT_TESTS = [
  "test/redis",
  "packages/memcached",
  "packages/sqlite",
  "test/behaviour/p6-fail-open/redis-down.test.ts",
];

function run(command, args, { cwd = ROOT, env = process.env } = {}) {
  const { status, stdout, stderr } = spawnSync(command, args, { cwd, env, encoding: "utf8", maxBuffer: 2 ** 27 });
  if (status !== 0)
    throw new Error(`${command} ${args.join(" ")} exited with ${status}:\n${tail(`${stdout}\n${stderr}`)}`);
  return stdout;
}

/** Runs tests, but for the slow ones: the part `slow` runs those, alone, since beside others they run out of time. */
const runTests = (tests, options) => run("npx", ["vitest", "run", "--project=!slow", ...tests], options);

const tail = (text) => text.trimEnd().split("\n").slice(-60).join("\n");

async function verifyPackage(report) {
  const tarball = pack(ROOT);
  for (const version of NODE_VERSIONS) {
    for (const peers of PEER_VERSIONS) {
      if (peers.excludes?.some((excluded) => version.startsWith(excluded))) continue;
      checkPackage(tarball, environmentOf(version), peers);
      report(
        `package on Node ${version} with ${namesOf(peers)}: installs engine-strict, caches, every entry point loads and compiles`,
      );
    }
  }
}

async function verifyPackages(report) {
  const rootTarball = pack(ROOT);
  const tarballs = packAll();
  for (const version of NODE_VERSIONS)
    await checkPackages(rootTarball, tarballs, environmentOf(version), (line) => report(`Node ${version}, ${line}`));
}

async function verifyNodes(report) {
  const clone = mkdtempSync(join(tmpdir(), "graphql-cached-verify-"));
  try {
    run("git", ["clone", "--quiet", ROOT, clone]);
    for (const version of NODE_VERSIONS) {
      const env = environmentOf(version);
      rmSync(join(clone, "node_modules"), { recursive: true, force: true });
      const output = run("npm", ["cit"], { cwd: clone, env: { ...env, CI: "true" } });
      report(`npm cit on Node ${version}: ${testsIn(output)}`);
      report(`npm start on Node ${version}: ${await startedServer(clone, env)}`);
    }
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
}

/** Starts the example server, sends one query and stops the server. Resolves to what it answered. */
function startedServer(cwd, env) {
  return new Promise((resolve, reject) => {
    const server = spawn("npm", ["start"], { cwd, env: { ...env, PORT: "0" }, detached: true });
    let output = "";
    let isAsked = false;
    const stop = () => process.kill(-server.pid, "SIGTERM");
    const timer = setTimeout(() => {
      stop();
      reject(new Error(`npm start did not print its address:\n${tail(output)}`));
    }, START_TIMEOUT_MS);
    const read = async (chunk) => {
      output += chunk;
      const [, address] = /(http:\/\/127\.0\.0\.1:\d+\/)/.exec(output) ?? [];
      if (address === undefined || isAsked) return;
      isAsked = true;
      clearTimeout(timer);
      try {
        const response = await fetch(`${address}graphql`, {
          method: "POST",
          headers: { "content-type": "application/json" },
          body: JSON.stringify({ query: "{ __typename }" }),
        });
        const answer = `${response.status} ${(await response.text()).trim()}`;
        if (answer.startsWith('200 {"data":{"__typename":"Query"}')) resolve(answer);
        else reject(new Error(`npm start: expected the answer of a query, got ${answer}`));
      } catch (error) {
        reject(error);
      } finally {
        stop();
      }
    };
    server.stdout.on("data", read);
    server.stderr.on("data", read);
  });
}

/** Runs `work` in a fresh clone of HEAD with its packages. */
function inClone(work) {
  const clone = mkdtempSync(join(tmpdir(), "graphql-cached-verify-"));
  try {
    run("git", ["clone", "--quiet", ROOT, clone]);
    run("npm", ["ci", "--silent"], { cwd: clone });
    work(clone);
  } finally {
    rmSync(clone, { recursive: true, force: true });
  }
}

/** Runs `work` on each of `items`, on the others too after one has failed. */
function runEach(items, work) {
  const failures = [];
  for (const item of items) {
    try {
      work(item);
    } catch (error) {
      failures.push(error.message);
    }
  }
  if (failures.length > 0) throw new Error(failures.join("\n\n"));
}

/** Runs tests with another version of graphql. */
function verifyGraphql(report) {
  inClone((clone) => {
    runEach(GRAPHQL_VERSIONS, ({ packages, excluded }) => {
      // Forced: the excluded servers are installed all the same.
      run("npm", ["install", "--silent", "--no-save", "--force", ...packages], { cwd: clone });
      run("npm", ["run", "--silent", "typecheck"], { cwd: clone });
      // The projects of Vitest ignore its option `--exclude`.
      const tests = run("git", ["ls-files", "*.test.ts"], { cwd: clone }).trim().split("\n");
      const included = tests.filter((file) => !excluded.some((path) => file.startsWith(path)));
      const output = runTests(included, { cwd: clone });
      report(`${packages.join(", ")}: ${testsIn(output)}`);
    });
  });
}

/**
 * The oldest and the newest version of ioredis 5; the installed one is of version 6. Without the tests of what is said of a connection
 * that fails: version 5 does not tell a Cluster client why a node cannot be reached.
 */
const IOREDIS_VERSIONS = ["5.4.0", "5.9.3"];

function verifyIoredis(report) {
  inClone((clone) => {
    rmSync(join(clone, "test/redis/connection-errors.test.ts"));
    runEach(IOREDIS_VERSIONS, (version) => {
      run("npm", ["install", "--silent", "--no-save", `ioredis@${version}`], { cwd: clone });
      report(`ioredis ${version}: ${testsIn(runTests(REDIS_TESTS, { cwd: clone }))}`);
    });
  });
}

const REDIS_TESTS = [
  "test/conformance",
  "test/redis",
  "test/project/scripts.test.ts",
  "test/behaviour/p6-fail-open/redis-down.test.ts",
];

function verifyValkey(report) {
  const { server, version } = setupValkey();
  const output = runTests(REDIS_TESTS, { env: { ...process.env, REDIS_SERVER: server } });
  report(`Valkey ${version}: ${testsIn(output)}`);
}

/** Runs that `test/faults/run.ts` makes, by its arguments. */
const FAULT_RUNS = [
  [],
  ["--memory=off"],
  ["--store=cluster"],
  ["--kind=each", "net-cut", "restart-with-data", "rolling-deploy"],
  ["--without=gen", "commands", "messages", "repeated-messages"],
  ["--without=keys", "--kind=key", "--kind=loader-id", "commands", "calm"],
  ["--store=memcached"],
  ["--without=clock", "--kind=tag", "--kind=field", "--kind=clear", "calm"],
  ["--without=head", "calm"],
  ["--without=execution", "calm"],
  ["--without=join", "--kind=result-tag", "calm"],
  ["--responses"],
  ["--responses", "--store=cluster"],
  ["--responses", "--kind=each", "net-cut"],
  ["--responses", "--without=parts", "--kind=key", "--kind=loader-id", "--kind=field", "calm"],
];

function verifyFaults(report) {
  runEach(FAULT_RUNS, (options) => {
    const { status, stdout, stderr } = spawnSync("npx", ["tsx", "test/faults/run.ts", ...options], {
      cwd: ROOT,
      encoding: "utf8",
    });
    for (const line of stdout.trimEnd().split("\n")) report(line);
    if (status !== 0)
      throw new Error(`test/faults/run.ts ${options.join(" ")} exited with ${status}:\n${tail(stderr)}`);
  });
  runEach([1, 2, 3], (round) => {
    const output = runTests(FAULT_TESTS, { env: { ...process.env, EVERY_CLIENT: "1" } });
    report(`faults, run ${round}: ${testsIn(output)}`);
  });
}

/** Returns what Vitest says of the tests that it has run. */
function testsIn(output) {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are the colors of a terminal.
  const [, counts = "no tests"] = /Tests\s+(.*)/.exec(output.replaceAll(/\u001b\[\d+m/g, "")) ?? [];
  return counts.trim();
}

const STEPS = {
  package: verifyPackage,
  packages: verifyPackages,
  runtimes: (report) => checkRuntimes([pack(ROOT), pack(join(ROOT, "packages/sqlite"))], report),
  nodes: verifyNodes,
  graphql: verifyGraphql,
  ioredis: verifyIoredis,
  valkey: verifyValkey,
  faults: verifyFaults,
  slow: (report) => {
    run("npx", ["vitest", "run", "--project=slow"]);
    report("test/**/*.slow.test.ts: passed");
  },
  random: (report) => {
    runTests(RANDOM_TESTS, { env: { ...process.env, PROPERTY_RUNS: "40" } });
    report(`${RANDOM_TESTS.join(", ")}, with PROPERTY_RUNS=40: passed`);
  },
  mutants: runMutants,
  models: (report) => checkModels(report),
};
const chosen = args.filter((arg) => !/^\d/.test(arg));
const unknown = chosen.filter((name) => !Object.hasOwn(STEPS, name));
if (unknown.length > 0) {
  console.error(`expected any of ${Object.keys(STEPS).join(", ")}, got ${unknown.join(", ")}`);
  process.exit(2);
}
let failed = 0;
for (const name of chosen.length > 0 ? chosen : Object.keys(STEPS)) {
  const started = Date.now();
  try {
    await STEPS[name]((line) => console.log(`  ${line}`));
    console.log(`${name}: passed in ${Math.round((Date.now() - started) / 1000)} s`);
  } catch (error) {
    failed++;
    console.log(`${name}: FAILED\n${error.message}`);
  }
}
process.exit(failed === 0 ? 0 : 1);
