import type { Fleet, Program } from "../fleet.js";
import { byHand, byHandAsFound } from "../page/by-hand.js";
import { PAGE_CONTENDERS } from "../page/contenders.js";
import { cached, cachedNoMemory, cachedTwoSeconds, cachedUntagged } from "../page/graphql-cached.js";
import { mistakeMeasures, withMistakes } from "../page/mistakes.js";
import type { PageCommands, PageSetup, VisitReport } from "../page/process.js";
import type { Target } from "../report.js";
import {
  type Context,
  type Measure,
  redisCpu,
  rowsOf,
  type Sample,
  type Samples,
  type Scenario,
  turned,
  withFleets,
} from "../scenario.js";
import { percentile } from "../statistics.js";

export const PAGE: Program<PageSetup, PageCommands> = { module: "page/process" };
export type PageFleet = Fleet<PageCommands>;
type PageFleets = ReadonlyMap<string, PageFleet>;
const CONTENDERS = PAGE_CONTENDERS.map(({ name }) => name);
/** Added to the name of a contender that uses the other build. */
const AGAINST = ", other build";

/** A load of the page. */
interface Load {
  /** Added to the names of measures. */
  readonly suffix: string;
  readonly callers: number;
  readonly callMs: number;
  /** Requests of a round, the same ones for each contender. */
  readonly requests: readonly [quick: number, full: number];
  /** The targets of the requests a second, of by hand. */
  readonly targets: readonly Target[];
}

const LOADS: readonly Load[] = [
  {
    suffix: "",
    callers: 32,
    callMs: 3,
    requests: [1_000, 2_000],
    targets: [
      { contender: cached.name, bound: 1.8 },
      { contender: cachedNoMemory.name, bound: 1 },
      { contender: cachedTwoSeconds.name, bound: 1.9 },
    ],
  },
  {
    suffix: ", 4 callers",
    callers: 4,
    callMs: 3,
    requests: [400, 800],
    targets: [{ contender: cached.name, bound: 1.3 }],
  },
  {
    suffix: ", source 20 ms",
    callers: 32,
    callMs: 20,
    requests: [400, 800],
    targets: [{ contender: cached.name, bound: 1.5 }],
  },
];

const SPEED = "of by hand";
const OTHER_BUILD = "of the other build";
const P99 = "p99 of by hand";
const CPU = "CPU of by hand";
const NEVER_STALE = [cached, cachedNoMemory, cachedUntagged].map(({ name }) => name);

/** Rounds with the same processes, and how often a full run starts new ones: the same code is faster in one process than in another. */
const ROUNDS = 5;
const STARTS = 2;

/**
 * The page of a shop: a category with twenty items, three cached fields each, and recommendations. 5,000 ids by Zipf's law, 30 %
 * of the queries with another field, 2 % mutations, at most 20 calls of the source at a time. Unless the measure says otherwise,
 * with 32 callers and a source of 3 ms.
 */
export const page: Scenario = {
  name: "page",
  title: "page, 32 callers, source 3 ms",
  isQuick: true,
  measures: [
    ...LOADS.flatMap(({ suffix, targets }): Measure[] => [
      { name: `${SPEED}${suffix}`, unit: "x", better: "more", targets },
      { name: `${OTHER_BUILD}${suffix}`, unit: "x", better: "more" },
      { name: `requests/s${suffix}`, unit: "", better: "more" },
    ]),
    { name: "p50", unit: "ms", better: "less" },
    { name: "p99", unit: "ms", better: "less" },
    { name: P99, unit: "x", better: "less", targets: [{ contender: cached.name, bound: 1.2 }] },
    {
      name: CPU,
      unit: "x",
      better: "less",
      targets: [
        { contender: cached.name, bound: 0.65 },
        { contender: cachedNoMemory.name, bound: 1 },
      ],
    },
    { name: "CPU a request", unit: "us", better: "less" },
    { name: "Redis CPU a request", unit: "us", better: "less" },
    { name: "source calls a request", unit: "", better: "less" },
    { name: "keys loaded a page", unit: "", better: "less" },
    ...mistakeMeasures(NEVER_STALE, [...NEVER_STALE, cachedTwoSeconds.name]),
  ],
  run: async (ctx) => {
    const taken: Samples = new Map();
    const reports: Reports = new Map();
    for (let start = 0; start < ctx.count(1, STARTS); start++) {
      await ctx.control.flushall();
      await withPages(ctx, (fleets) => measureRounds(ctx, fleets, start, taken, reports));
    }
    return withMistakes(rowsOf(taken), reports, byHandAsFound.name);
  },
};

/** Starts one process per contender. If there is another build, only what is compared with it is measured. */
function withPages<Result>(ctx: Context, work: (fleets: PageFleets) => Promise<Result>): Promise<Result> {
  const { against } = ctx;
  if (against === undefined) return withFleets(ctx, CONTENDERS, { program: PAGE, setup: {} }, work);
  const ours = [cached, cachedNoMemory, cachedTwoSeconds].map(({ name }) => name);
  return withFleets(ctx, [byHand.name, ...ours], { program: PAGE, setup: {} }, (own) =>
    withFleets(ctx, ours, { program: PAGE, setup: { library: against } }, (other) =>
      work(new Map([...own, ...[...other].map(([name, fleet]) => [`${name}${AGAINST}`, fleet] as const)])),
    ),
  );
}

/** A warm-up opens all categories once, which stores nearly all that is asked for later. Popular pages follow, which fill memories. */
export const WARM_UP = { all: 5_100, popular: 2_000 } as const;

export async function warmUp(
  ctx: Context,
  fleets: PageFleets,
  {
    seed,
    requests,
    reports,
  }: { seed: number; requests: Readonly<Record<"all" | "popular", number>>; reports?: Reports },
): Promise<void> {
  for (const [name, fleet] of fleets)
    for (const kind of ["all", "popular"] as const) {
      const visit = { callers: 32, callMs: 3, requests: ctx.count(requests[kind], requests[kind]), seed, kind };
      const report = await fleet.send(0, "visit", visit);
      if (reports !== undefined) addReport(reports, name, report);
    }
}

async function measureRounds(
  ctx: Context,
  fleets: PageFleets,
  start: number,
  taken: Samples,
  reports: Reports,
): Promise<void> {
  const seed = ctx.seed + 1_000 * start;
  await warmUp(ctx, fleets, { seed, requests: WARM_UP, reports });
  for (let round = 0; round < ctx.count(3, ROUNDS); round++) {
    const samples = new Map<string, Record<string, number>>([...fleets.keys()].map((name) => [name, {}]));
    for (const load of LOADS)
      for (const [name, fleet] of turned([...fleets], round)) {
        const { callers, callMs } = load;
        const requests = ctx.count(...load.requests);
        const redisBefore = await redisCpu(ctx.control);
        const report = await fleet.send(0, "visit", { callers, callMs, requests, seed: seed + 1 + round });
        const redisS = (await redisCpu(ctx.control)) - redisBefore;
        addReport(reports, name, report);
        Object.assign(samples.get(name) as object, sampleOf(load, report, redisS));
      }
    for (const name of fleets.keys()) taken.set(name, [...(taken.get(name) ?? []), relate(samples, name)]);
  }
}

function sampleOf({ suffix }: Load, report: VisitReport, redisS: number): Sample {
  const { requests } = report;
  const speed = { [`requests/s${suffix}`]: (requests / report.elapsedMs) * 1e3 };
  if (suffix !== "") return speed;
  return {
    ...speed,
    p50: percentile(report.waits, 0.5),
    p99: percentile(report.waits, 0.99),
    "CPU a request": (report.cpuMs / requests) * 1e3,
    "Redis CPU a request": (redisS / requests) * 1e6,
    "source calls a request": report.sourceCalls / requests,
    "keys loaded a page": report.keysLoaded / Math.max(1, requests - report.mutations),
  };
}

/** Adds what is relative to other contenders of the same round. */
function relate(samples: ReadonlyMap<string, Sample>, name: string): Sample {
  const ratio = (measure: string, of: string): number =>
    (samples.get(name)?.[measure] ?? Number.NaN) / (samples.get(of)?.[measure] ?? Number.NaN);
  const other = `${name}${AGAINST}`;
  const speeds = LOADS.flatMap(({ suffix }) => [
    [`${SPEED}${suffix}`, ratio(`requests/s${suffix}`, byHand.name)],
    ...(samples.has(other) ? [[`${OTHER_BUILD}${suffix}`, ratio(`requests/s${suffix}`, other)]] : []),
  ]);
  return {
    ...samples.get(name),
    ...Object.fromEntries(speeds),
    [P99]: ratio("p99", byHand.name),
    [CPU]: ratio("CPU a request", byHand.name),
  };
}

/** The reports of a scenario, by contender, with those of the warm-up. */
export type Reports = Map<string, VisitReport[]>;

export const addReport = (reports: Reports, name: string, report: VisitReport): void => {
  reports.set(name, [...(reports.get(name) ?? []), report]);
};
