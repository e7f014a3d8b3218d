import { instantMs, pause } from "../instant.js";
import type { ContenderName } from "../loaders/contenders.js";
import { type Context, interleave, redisCpu, rowsOf, type Sample, type Scenario, withFleets } from "../scenario.js";
import { percentile, sum } from "../statistics.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

/** The duration of a load. */
export const LOAD_MS = 100;
const PROCESSES = 4;
const CALLERS = 250;
/** Bursts before the first round, in which V8 compiles what they run, and before each: the processes were idle. */
const WARM_UPS = 40;
const BURSTS_BEFORE = 8;
const WARM_LOAD_MS = 10;
/** The delay after which all processes start at the same instant. */
const START_MS = 40;

/** Those that load a missing key under a lock of their own, or of all processes. */
export const LOADING: readonly ContenderName[] = [
  "by hand",
  "graphql-cached",
  "lock recipe",
  "bentocache",
  "async-cache-dedupe",
  "layered-loader",
];

/** Four processes read one missing key at the same instant. */
export const coldKey: Scenario = {
  name: "cold-key",
  title: `cold key, ${PROCESSES} processes x ${CALLERS} callers, load of ${LOAD_MS} ms`,
  measures: [
    { name: "loads", unit: "", better: "less", targets: [{ contender: "graphql-cached", bound: 1 }] },
    { name: "p99", unit: "ms", better: "less", targets: [{ contender: "graphql-cached", bound: 115 }] },
    { name: "p50", unit: "ms", better: "less" },
    { name: "CPU a caller", unit: "us", better: "less", targets: [{ contender: "graphql-cached", bound: 15 }] },
    { name: "Redis CPU", unit: "ms", better: "less" },
  ],
  run: (ctx) =>
    withFleets(ctx, LOADING, { program: LOADERS, setup: {}, count: PROCESSES }, async (fleets) => {
      for (const fleet of fleets.values()) await warmUp(fleet, ctx.count(10, WARM_UPS), "warm-up");
      const measure = (name: string, round: number): Promise<Sample> =>
        measureBurst(ctx, fleets.get(name) as LoaderFleet, round);
      return rowsOf(await interleave(LOADING, ctx.count(5, 15), measure));
    }),
};

const burst = (fleet: LoaderFleet, id: string) =>
  fleet.sendAll("burst", { requests: CALLERS, ids: [id], atMs: instantMs() + START_MS });

async function warmUp(fleet: LoaderFleet, bursts: number, name: string): Promise<void> {
  await fleet.sendAll("source", { loadMs: WARM_LOAD_MS });
  for (let nth = 0; nth < bursts; nth++) await burst(fleet, `${name}-${nth}`);
  await fleet.sendAll("source", { loadMs: LOAD_MS });
}

async function measureBurst(ctx: Context, fleet: LoaderFleet, round: number): Promise<Sample> {
  await warmUp(fleet, BURSTS_BEFORE, `before-${round}`);
  await pause(50);
  await fleet.sendAll("loads", {});
  const before = await redisCpu(ctx.control);
  const reports = await burst(fleet, `round-${round}`);
  await pause(150);
  const redisS = (await redisCpu(ctx.control)) - before;
  const waits = reports.flatMap((report) => report.waits);
  return {
    loads: (await fleet.sendAll("loads", {})).flat().length,
    p99: percentile(waits, 0.99),
    p50: percentile(waits, 0.5),
    "CPU a caller": (sum(reports.map(({ cpuMs }) => cpuMs)) * 1e3) / waits.length,
    "Redis CPU": redisS * 1e3,
  };
}
