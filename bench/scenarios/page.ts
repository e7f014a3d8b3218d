import type { Fleet, Program } from "../fleet.js";
import { byHand, cachedNear, cachedRedis, cachedUntagged, PAGE_CONTENDERS } from "../page/contenders.js";
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
  withFleets,
} from "../scenario.js";
import { percentile, sum } from "../statistics.js";

export const PAGE: Program<PageSetup, PageCommands> = { module: "page/process" };
const CONTENDERS = PAGE_CONTENDERS.map(({ name }) => name);
/** Added to the name of a contender that uses the other build. */
const AGAINST = ", other build";

const OURS = [cachedRedis, cachedUntagged, cachedNear].map(({ name }) => name);

/** A load of the page. */
interface Load {
  /** Added to the names of measures. */
  readonly suffix: string;
  readonly callers: number;
  readonly callMs: number;
  /** Requests of a round, the same ones for each contender. */
  readonly requests: number;
  /** The targets of the requests a second, of by hand. */
  readonly targets: readonly Target[];
}

const LOADS: readonly Load[] = [
  {
    suffix: "",
    callers: 32,
    callMs: 3,
    requests: 2_000,
    targets: [
      { contender: cachedRedis.name, bound: 1 },
      { contender: cachedNear.name, bound: 2 },
    ],
  },
  {
    suffix: ", 4 callers",
    callers: 4,
    callMs: 3,
    requests: 800,
    targets: [{ contender: cachedRedis.name, bound: 0.85 }],
  },
  {
    suffix: ", source 20 ms",
    callers: 32,
    callMs: 20,
    requests: 800,
    targets: [{ contender: cachedRedis.name, bound: 1.2 }],
  },
];

const SPEED = "of by hand";
const OTHER_BUILD = "of the other build";
const CPU = "CPU of by hand";
/** Measures that graphql-cached must not have at all. */
const none = (name: string): Measure => ({
  name,
  unit: "%",
  better: "less",
  targets: OURS.map((contender) => ({ contender, bound: 0 })),
});

/** Requests before the first round, which store most of what is asked for, and in which V8 compiles what they run. */
const WARM_UP = 5_000;
/** Rounds with the same processes, and how often a full run starts new ones: the same code is faster in one process than in another. */
const ROUNDS = 5;
const STARTS = 2;

/**
 * The page of a shop: a category with twenty items, three cached fields each, and recommendations. 5,000 ids by Zipf's law, two
 * queries, 2 % mutations, at most 20 calls of the source at a time. Unless the measure says otherwise, with 32 callers and a
 * source of 3 ms.
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
    { name: CPU, unit: "x", better: "less", targets: [{ contender: cachedRedis.name, bound: 1.1 }] },
    { name: "CPU a request", unit: "us", better: "less" },
    { name: "Redis CPU a request", unit: "us", better: "less" },
    { name: "source calls a request", unit: "", better: "less" },
    none("stale values"),
    none("failed requests"),
  ],
  run: async (ctx) => {
    const taken: Samples = new Map();
    for (let start = 0; start < ctx.count(1, STARTS); start++) {
      await ctx.control.flushall();
      await withPages(ctx, (fleets) => measureRounds(ctx, fleets, start, taken));
    }
    return rowsOf(taken);
  },
};

type Fleets = ReadonlyMap<string, Fleet<PageCommands>>;

/** Starts one process per contender. If there is another build, only what is compared with it is measured. */
function withPages<Result>(ctx: Context, work: (fleets: Fleets) => Promise<Result>): Promise<Result> {
  const { against } = ctx;
  if (against === undefined) return withFleets(ctx, CONTENDERS, { program: PAGE, setup: {} }, work);
  const ours = [cachedRedis.name, cachedNear.name];
  return withFleets(ctx, [byHand.name, ...ours], { program: PAGE, setup: {} }, (own) =>
    withFleets(ctx, ours, { program: PAGE, setup: { library: against } }, (other) =>
      work(new Map([...own, ...[...other].map(([name, fleet]) => [`${name}${AGAINST}`, fleet] as const)])),
    ),
  );
}

async function measureRounds(ctx: Context, fleets: Fleets, start: number, taken: Samples): Promise<void> {
  const seed = ctx.seed + 1_000 * start;
  for (const fleet of fleets.values())
    await fleet.send(0, "visit", { callers: 32, callMs: 3, requests: ctx.count(WARM_UP, WARM_UP), seed });
  for (let round = 0; round < ctx.count(3, ROUNDS); round++) {
    const samples = new Map<string, Record<string, number>>([...fleets.keys()].map((name) => [name, {}]));
    const reports = new Map<string, VisitReport[]>([...fleets.keys()].map((name) => [name, []]));
    for (const load of LOADS)
      for (const [name, fleet] of round % 2 === 0 ? fleets : [...fleets].toReversed()) {
        const { callers, callMs, requests: full } = load;
        const requests = ctx.count(full, full);
        const redisBefore = await redisCpu(ctx.control);
        const report = await fleet.send(0, "visit", { callers, callMs, requests, seed: seed + 1 + round });
        const redisS = (await redisCpu(ctx.control)) - redisBefore;
        reports.get(name)?.push(report);
        Object.assign(samples.get(name) as object, sampleOf(load, report, redisS));
      }
    for (const name of fleets.keys())
      taken.set(name, [
        ...(taken.get(name) ?? []),
        { ...relate(samples, name), ...mistakesOf(reports.get(name) ?? []) },
      ]);
  }
}

function sampleOf({ suffix }: Load, report: VisitReport, redisS: number): Sample {
  const requests = report.waits.length;
  const speed = { [`requests/s${suffix}`]: (requests / report.elapsedMs) * 1e3 };
  if (suffix !== "") return speed;
  return {
    ...speed,
    p50: percentile(report.waits, 0.5),
    p99: percentile(report.waits, 0.99),
    "CPU a request": (report.cpuMs / requests) * 1e3,
    "Redis CPU a request": (redisS / requests) * 1e6,
    "source calls a request": report.sourceCalls / requests,
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
  return { ...samples.get(name), ...Object.fromEntries(speeds), [CPU]: ratio("CPU a request", byHand.name) };
}

/** What went wrong in all loads of a round. */
function mistakesOf(reports: readonly VisitReport[]): Sample {
  const share = (part: (report: VisitReport) => number, all: (report: VisitReport) => number): number =>
    (sum(reports.map(part)) / Math.max(1, sum(reports.map(all)))) * 100;
  return {
    "stale values": share(
      ({ staleValues }) => staleValues,
      ({ values }) => values,
    ),
    "failed requests": share(
      ({ errors }) => errors,
      ({ waits }) => waits.length,
    ),
  };
}
