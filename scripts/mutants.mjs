/**
 * Mutation tests of what the promises rest on: `npm run verify -- mutants`. Stryker changes the TypeScript files of
 * `GROUPS`. It cannot change Lua, so `SCRIPT_MUTANTS` does that. A mutant must make a test fail.
 */
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const FOLDER = join(ROOT, "scripts/mutation");
const STRYKER = join(FOLDER, "node_modules/@stryker-mutator/core/bin/stryker.js");
const CONFORMANCE = "test/conformance/fake-time.test.ts";

/**
 * Files, tests that cover them and are fast, and the least percentage of mutants that these tests kill. It is a little below
 * what they killed at last: many of the others change nothing that a caller could observe.
 */
const GROUPS = [
  { file: "src/core/store/transitions.ts", tests: [CONFORMANCE], minScore: 80 },
  {
    file: "src/core/tier/entry/freshness.ts",
    tests: [
      "test/unit/tier/freshness.test.ts",
      "test/unit/tier/value-ttl.test.ts",
      "test/behaviour/p5-bounded-staleness/stale.test.ts",
      "test/behaviour/p11-single-flight/states.test.ts",
      "test/behaviour/p5-bounded-staleness/result-control.test.ts",
    ],
    minScore: 92,
  },
  {
    file: "src/core/tier/lease/load-sharing.ts",
    tests: [
      "test/unit/tier/load-sharing.test.ts",
      "test/behaviour/p11-single-flight/load-sharing.test.ts",
      "test/behaviour/p7-errors-pass-through/caller-errors.test.ts",
      "test/behaviour/p1-one-load/nested-loads.test.ts",
      "test/behaviour/p6-fail-open/redis-down.test.ts",
    ],
    minScore: 84,
  },
  {
    file: "src/core/loader/identity.ts",
    tests: [
      "test/unit/loader/identity.test.ts",
      "test/leaks/identity.test.ts",
      "test/behaviour/p8-privacy/private-scope.test.ts",
    ],
    minScore: 92,
  },
  {
    file: "src/core/directive/permissions/auth-marks.ts",
    tests: ["test/behaviour/p8-privacy/permissions.test.ts"],
    minScore: 75,
  },
  {
    file: "src/core/tier/shared/known-positions.ts",
    tests: [
      "test/unit/tier/known-positions.test.ts",
      "test/unit/tier/invalidation-clock.test.ts",
      "test/behaviour/p2-no-stale-store/invalidations.test.ts",
      "test/behaviour/p2-no-stale-store/invalidate-whole.test.ts",
      "test/behaviour/p2-no-stale-store/result-tags.test.ts",
      "test/behaviour/p2-no-stale-store/writes.test.ts",
    ],
    minScore: 76,
  },
  {
    file: "src/core/responses/response-key.ts",
    tests: [
      "test/responses/responses.test.ts",
      "test/responses/response-keys.test.ts",
      "test/responses/whose-response.test.ts",
      "test/responses/odd-requests.test.ts",
      "test/responses/control.test.ts",
    ],
    minScore: 87,
  },
];

/** Mutants of Lua scripts: a text, in which white space stands for any, what replaces it, and the tests if others than those of `CONFORMANCE`. */
export const SCRIPT_MUTANTS = [
  ["acquire", "if isActive and holder ~= token then", "if holder and holder ~= token then"],
  ["acquire", "if isFresh and grantedAt > math.abs(supersededAt) then", "if isFresh then"],
  ["acquire", "'PX', ttlMs, 'NX')", "'PX', ttlMs)"],
  ["release", "token == expected", "token ~= ''"],
  ["renew", "token == string.sub(ARGV[first], 16 * i - 15, 16 * i)", "token ~= ''"],
  ["remove", "elseif soft ~= '1' or (state and state ~= 'unknown') then", "elseif soft ~= '1' then"],
  ["store-values", "not gen or gen ~= expected then", "not gen then"],
  ["store-values", "elseif remainingMs <= 0 then", "elseif false then"],
];

/** Reports what each mutant did. Throws if too many of them survived. */
export function runMutants(report) {
  if (!existsSync(STRYKER)) execute("npm", ["ci", "--prefix", FOLDER, "--ignore-scripts"], {});
  const failures = [...GROUPS.flatMap((group) => runStryker(group, report)), ...runScriptMutants(report)];
  if (failures.length > 0) throw new Error(failures.join("\n"));
}

function runStryker({ file, tests, minScore }, report) {
  const config = "scripts/mutation/stryker.config.json";
  const { stdout } = execute(process.execPath, [STRYKER, "run", config, "--mutate", file], {
    MUTATION_TESTS: tests.join(" "),
  });
  const score = Number(/^All files *\| *([\d.]+)/m.exec(stdout)?.[1]);
  report(`${file}: ${score} % of the mutants killed`);
  return score >= minScore ? [] : [`${file}: expected a score of ${minScore} or more, got ${score}:\n${stdout}`];
}

function runScriptMutants(report) {
  for (const tests of new Set(SCRIPT_MUTANTS.map(([, , , own = CONFORMANCE]) => own)))
    if (isKilled(undefined, tests)) throw new Error(`expected ${tests} to pass without a mutant`);
  return SCRIPT_MUTANTS.flatMap(([script, from, to, tests = CONFORMANCE]) => {
    const killed = isKilled({ file: `src/stores/redis/scripts/${script}.ts`, from, to }, tests);
    report(`${killed ? "killed" : "SURVIVED"}: ${script}: ${from}`);
    return killed ? [] : [`${script}: ${from} -> ${to} survived`];
  });
}

function isKilled(mutant, tests) {
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const args = ["run", "--config", "scripts/mutation/vitest.config.ts", "--bail=1", "--reporter=json"];
  const { status, stdout, stderr } = execute(process.execPath, [vitest, ...args], {
    MUTATION_TESTS: tests,
    ...(mutant === undefined ? {} : { MUTANT: JSON.stringify(mutant) }),
  });
  if (status === 0) return false;
  if (/"numFailedTests":[1-9]/.test(stdout)) return true;
  throw new Error(`${tests} could not run:\n${`${stdout}\n${stderr}`.slice(-2_000)}`);
}

function execute(command, args, env) {
  return spawnSync(command, args, {
    cwd: ROOT,
    env: { ...process.env, ...env },
    encoding: "utf8",
    maxBuffer: 2 ** 27,
  });
}
