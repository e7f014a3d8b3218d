/** Runs the scenarios, prints their results and saves them. See README.md in this folder. */
import { Redis } from "ioredis";
import { RedisLab } from "../test/support/redis-lab.js";
import { evaluateTargets, formatScenario, formatTargets, type ScenarioReport } from "./report.js";
import { describeMachine, readVersions, saveResults } from "./results.js";
import type { Context, Scenario } from "./scenario.js";
import { SCENARIOS } from "./scenarios/all.js";

const SEED = 2026;
const args = process.argv.slice(2);
/** Shows that all scenarios run. The numbers mean nothing and are not saved. */
const isSmoke = args.includes("--smoke");
const isQuick = isSmoke || args.includes("--quick");
const MAX_SMOKE_IDS = 2_000;
const requested = args.filter((arg) => !arg.startsWith("--"));
const unknown = requested.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
if (unknown.length > 0) {
  console.error(
    `unknown scenario: ${unknown.join(", ")}; expected one of ${SCENARIOS.map(({ name }) => name).join(", ")}`,
  );
  process.exit(1);
}

const isChosen = ({ name, isLong }: Scenario): boolean =>
  requested.length === 0 ? isLong !== true || !isQuick || isSmoke : requested.includes(name);
const chosen = SCENARIOS.filter(isChosen);
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
  console.log(`${about.command}, seed ${SEED}, ${about.date}\n${about.machine}`);
  console.log(
    `${Object.entries(about.versions)
      .map((entry) => entry.join(" "))
      .join(", ")}\n`,
  );
  console.log("Medians, with the quartiles of the rounds in parentheses.\n");
  const leftOut = SCENARIOS.filter((scenario) => requested.length === 0 && !isChosen(scenario));
  if (leftOut.length > 0) console.log(`Not in a quick run: ${leftOut.map(({ name }) => name).join(", ")}.\n`);
  const rounds = (quick: number, full: number): number => (isSmoke ? 1 : isQuick ? quick : full);
  const ids = (quick: number, full: number): number =>
    isSmoke ? Math.min(quick, MAX_SMOKE_IDS) : isQuick ? quick : full;
  const ctx: Context = { lab, redis, control, isQuick, rounds, ids, seed: SEED };
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
  await lab.stop();
}

/** Runs scenarios at the same time. */
async function runScenarios(group: readonly Scenario[], ctx: Context): Promise<void> {
  await ctx.control.flushall();
  await Promise.all(group.map((scenario) => runScenario(scenario, ctx)));
}

/** Runs a scenario. A failure is printed and does not stop the other scenarios. */
async function runScenario(scenario: Scenario, ctx: Context): Promise<void> {
  const { name, title, measures, charts = [] } = scenario;
  const startedAt = performance.now();
  try {
    const report = { title, measures, charts, rows: await scenario.run(ctx) };
    const took = ((performance.now() - startedAt) / 1e3).toFixed(0);
    console.log(`## ${title} (\`${name}\`, ${took} s)\n\n${formatScenario(report)}\n`);
    scenarios[name] = report;
  } catch (error) {
    process.exitCode = 1;
    console.error(`## ${title} (\`${name}\`) could not be measured`, error, "\n");
    // The table of targets shows these rows as not measured.
    scenarios[name] = { title, measures, charts: [], rows: [] };
  }
}
