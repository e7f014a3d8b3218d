/** Runs the scenarios, prints their results and saves them. See README.md in this folder. */
import { cpSync, existsSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { Redis } from "ioredis";
import { RedisLab } from "../test/support/redis-lab.js";
import { evaluateTargets, formatAbout, formatScenario, formatTargets, type ScenarioReport } from "./report.js";
import { describeMachine, readVersions, saveResults } from "./results.js";
import type { Context, Scenario } from "./scenario.js";
import { SCENARIOS } from "./scenarios/all.js";
import { sqliteFolder } from "./sqlite-folder.js";

const SEED = 2026;
const args = process.argv.slice(2);
/** Shows that all scenarios run. The numbers mean nothing and are not saved. */
const isSmoke = args.includes("--smoke");
const isQuick = args.includes("--quick");
const requested = args.filter((arg) => !arg.startsWith("--"));
const against = args.find((arg) => arg.startsWith("--against="))?.slice("--against=".length);

const isNamed = (name: string, by: string): boolean => name === by || name.startsWith(`${by}-`);
const unknown = requested.filter((by) => !SCENARIOS.some(({ name }) => isNamed(name, by)));
if (unknown.length > 0) {
  console.error(
    `unknown scenario: ${unknown.join(", ")}; expected one of ${SCENARIOS.map(({ name }) => name).join(", ")}`,
  );
  process.exit(1);
}
const chosen = SCENARIOS.filter(({ name, isQuick: hasQuick = false }) =>
  requested.length > 0 ? requested.some((by) => isNamed(name, by)) : hasQuick || !isQuick,
);
const command = ["npm run bench", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
const scenarios: Record<string, ScenarioReport> = {};
const lab = new RedisLab();
try {
  const redis = await lab.standalone();
  const control = new Redis(redis.port, redis.host);
  const version = /^redis_version:(\S+)/m.exec(await control.info("server"))?.[1] ?? "unknown";
  const about = {
    date: new Date().toISOString(),
    command,
    seed: SEED,
    machine: describeMachine(),
    versions: readVersions(version),
  };
  console.log(`${formatAbout({ ...about, scenarios })}\n\nMedians, with the quartiles of the rounds in parentheses.\n`);
  const ctx: Context = {
    lab,
    redis,
    control,
    ...(against === undefined ? {} : { against: copyBuild(against) }),
    count: (quick, full) => (isSmoke ? 1 : isQuick ? quick : full),
    seed: SEED,
  };
  let group: Scenario[] = [];
  for (const scenario of chosen) {
    group.push(scenario);
    if (scenario.runsWithNext === true) continue;
    await runScenarios(group, ctx);
    group = [];
  }
  await runScenarios(group, ctx);
  control.disconnect();
  console.log(`${formatTargets(Object.values(scenarios).flatMap(evaluateTargets))}\n`);
  const kind = requested.length > 0 ? "some" : isQuick ? "quick" : "full";
  const file = isSmoke ? "no file" : saveResults({ ...about, scenarios }, kind);
  const tookS = Math.round(performance.now() / 1e3);
  console.log(`${Math.floor(tookS / 60)}:${String(tookS % 60).padStart(2, "0")} in total; saved to ${file}`);
} finally {
  rmSync(sqliteFolder(process.pid), { recursive: true, force: true });
  await lab.stop();
}

/**
 * Copies the build of another checkout, so that it imports the same copies of graphql and ioredis as this one: graphql-js rejects
 * schemas of another copy.
 */
function copyBuild(checkout: string): string {
  const build = join(resolve(checkout), "dist");
  if (!existsSync(join(build, "index.js")))
    throw new Error(`--against: expected a checkout with dist/index.js, got ${checkout}; run npm run build there`);
  const copy = fileURLToPath(new URL("./dist/against", import.meta.url));
  rmSync(copy, { recursive: true, force: true });
  cpSync(build, copy, { recursive: true });
  return copy;
}

/** Runs scenarios at the same time. */
async function runScenarios(group: readonly Scenario[], ctx: Context): Promise<void> {
  await ctx.control.flushall();
  await Promise.all(group.map((scenario) => runScenario(scenario, ctx)));
}

/** Runs a scenario. A failure is printed and does not stop the other scenarios. */
async function runScenario({ name, title, measures, run }: Scenario, ctx: Context): Promise<void> {
  const startedAt = performance.now();
  try {
    const report = { title, measures, rows: await run(ctx) };
    const took = ((performance.now() - startedAt) / 1e3).toFixed(0);
    console.log(`## ${title} (\`${name}\`, ${took} s)\n\n${formatScenario(report)}\n`);
    scenarios[name] = report;
  } catch (error) {
    process.exitCode = 1;
    console.error(`## ${title} (\`${name}\`) could not be measured`, error, "\n");
    // The table of targets shows these rows as not measured.
    scenarios[name] = { title, measures, rows: [] };
  }
}
