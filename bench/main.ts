/** Runs the scenarios, prints what came out, and keeps it. See README.md beside this file. */
import { Redis } from "ioredis";
import { RedisLab } from "../test/support/redis-lab.js";
import { keep, machine, versions } from "./results.js";
import type { Context, Row, Scenario } from "./scenario.js";
import { SCENARIOS } from "./scenarios/all.js";
import { evaluateFreshness, type Freshness, freshnessTable, scenarioTable } from "./table.js";

const SEED = 2026;
const args = process.argv.slice(2);
const isQuick = args.includes("--quick");
const wanted = args.filter((arg) => !arg.startsWith("--"));
const unknown = wanted.filter((name) => !SCENARIOS.some((scenario) => scenario.name === name));
if (unknown.length > 0) {
  console.error(
    `there is no scenario ${unknown.join(", ")}; there are ${SCENARIOS.map(({ name }) => name).join(", ")}`,
  );
  process.exit(1);
}

const chosen = SCENARIOS.filter(({ name }) => wanted.length === 0 || wanted.includes(name));
const command = ["npm run bench", ...(args.length > 0 ? ["--", ...args] : [])].join(" ");
const scenarios: Record<string, readonly Row[]> = {};
const freshnesses: Freshness[] = [];
const lab = new RedisLab();
try {
  const redis = await lab.standalone();
  const control = new Redis(redis.port, redis.host);
  const version = /^redis_version:(\S+)/m.exec(await control.info("server"))?.[1] ?? "unknown";
  const about = {
    date: new Date().toISOString(),
    command,
    seed: SEED,
    machine: machine(),
    versions: versions(version),
  };
  console.log(`${about.command}, seed ${SEED}, ${about.date}\n${about.machine}`);
  console.log(
    `${Object.entries(about.versions)
      .map((entry) => entry.join(" "))
      .join(", ")}\n`,
  );
  console.log("Medians, with the quartiles of the rounds in brackets.\n");
  for (const scenario of chosen) await run(scenario, { lab, redis, control, isQuick, seed: SEED });
  control.disconnect();
  console.log(`${freshnessTable(freshnesses)}\n`);
  const file = keep({ ...about, freshnesses, scenarios }, wanted.length > 0 ? "some" : isQuick ? "quick" : "full");
  const tookS = Math.round(performance.now() / 1e3);
  console.log(`${Math.floor(tookS / 60)}:${String(tookS % 60).padStart(2, "0")} in all; kept in ${file}`);
} finally {
  await lab.stop();
}

/** A scenario that fails is told of, and the others go on. */
async function run(scenario: Scenario, ctx: Context): Promise<void> {
  const startedAt = performance.now();
  try {
    await ctx.control.flushall();
    const rows = await scenario.run(ctx);
    const took = ((performance.now() - startedAt) / 1e3).toFixed(0);
    console.log(`## ${scenario.title} (\`${scenario.name}\`, ${took} s)\n\n${scenarioTable(scenario, rows)}\n`);
    scenarios[scenario.name] = rows;
    freshnesses.push(...evaluateFreshness(scenario, rows));
  } catch (error) {
    process.exitCode = 1;
    console.error(`## ${scenario.title} (\`${scenario.name}\`) could not be measured`, error, "\n");
  }
}
