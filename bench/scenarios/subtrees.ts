import type { Fleet, Program } from "../fleet.js";
import {
  byHand,
  cachedNear,
  cachedRedis,
  dataLoaderOnly,
  objectsNear,
  objectsRedis,
  SUBTREE_CONTENDERS,
  subtreesNear,
  subtreesRedis,
} from "../page/contenders.js";
import type { PageCommands, Visit, VisitReport } from "../page/process.js";
import type { Target } from "../report.js";
import {
  type Context,
  interleave,
  type Measure,
  type Row,
  rowsOf,
  type Sample,
  type Samples,
  type Scenario,
  withFleets,
} from "../scenario.js";
import { MISS_CONTENDERS, type MissCommands, type MissContender, type MissRuntime } from "../servers/miss-process.js";
import type { VariantName } from "../servers/variants.js";
import { PAGE } from "./page.js";
import { measureServers, type ServerLoad, speedOf } from "./server-rounds.js";

const [REDIS, NEAR] = ["graphql-cached, subtree, Redis", "graphql-cached, subtree, near cache"] as const;
const [APOLLO_MEMORY, APOLLO_REDIS] = ["Apollo's response cache, memory", "Apollo's response cache, Redis"] as const;
const VARIANTS: readonly VariantName[] = [
  "no cache",
  "graphql-cached, Redis",
  "graphql-cached, near cache",
  REDIS,
  NEAR,
  "graphql-cached, responses, Redis",
  "graphql-cached, responses, near cache",
  APOLLO_MEMORY,
  APOLLO_REDIS,
];
/** A page of a hundred objects follows another. Soon all of them are stored. */
const STEP = 100;
const CALLERS = [1, 8] as const;
const LOADS = CALLERS.map((callers): ServerLoad => {
  const name = `${callers} caller${callers === 1 ? "" : "s"}`;
  return { name, server: "Apollo, as text", callers, step: STEP };
});
const WARM_UP_REQUESTS = 400;

/** The same pages again and again: what a hit of a subtree costs beside fields, whole responses, and another response cache. */
export const subtrees: Scenario = {
  name: "subtrees",
  title: "subtrees, pages of 100 objects with a cached field each, source without delay",
  measures: LOADS.flatMap(({ name }): Measure[] => [
    { name: `of no cache, ${name}`, unit: "x", better: "more" },
    {
      name: `of Apollo's of the same kind, ${name}`,
      unit: "x",
      better: "more",
      targets: [
        { contender: REDIS, bound: 1 },
        { contender: NEAR, bound: 0.9 },
      ],
    },
  ]),
  run: (ctx): Promise<readonly Row[]> =>
    measureServers(ctx, {
      loads: LOADS,
      variantsOf: { "Apollo, as text": VARIANTS },
      starts: ctx.count(1, 2),
      warmUpRequests: WARM_UP_REQUESTS,
      relate: ({ name: load }, name, served) => ({
        [`of no cache, ${load}`]: speedOf(served, name, "no cache"),
        [`of Apollo's of the same kind, ${load}`]: speedOf(
          served,
          name,
          name.includes("near") || name === APOLLO_MEMORY ? APOLLO_MEMORY : APOLLO_REDIS,
        ),
      }),
    }),
};

/** A load of the page of the shop. */
interface PageLoad {
  readonly name: string;
  readonly mutationShare: number;
  readonly isPersonal: boolean;
  readonly ofByHand: readonly Target[];
  readonly ofFields: readonly Target[];
}

const OURS = [subtreesRedis.name, subtreesNear.name];
/** Where little changes, whole categories are faster. Where items change all the time, their objects are. */
const OBJECTS: readonly Target[] = [
  { contender: objectsRedis.name, bound: 1.3 },
  { contender: objectsNear.name, bound: 1.3 },
];
const atLeast = (bound: number): Target[] => OURS.map((contender) => ({ contender, bound }));
const PAGE_LOADS: readonly PageLoad[] = [
  {
    name: "0.1 % mutations",
    mutationShare: 0.001,
    isPersonal: false,
    ofByHand: [
      { contender: subtreesRedis.name, bound: 1.5 },
      { contender: subtreesNear.name, bound: 4 },
    ],
    ofFields: atLeast(1),
  },
  {
    name: "2 % mutations",
    mutationShare: 0.02,
    isPersonal: false,
    ofByHand: [],
    ofFields: [...atLeast(1), ...OBJECTS],
  },
  { name: "a hole, 0.1 % mutations", mutationShare: 0.001, isPersonal: true, ofByHand: [], ofFields: atLeast(1) },
];
const PAGE_WARM_UP = 5_000;
const PAGE_REQUESTS = 2_000;

/**
 * The page of the shop, with `subtree: true` on its category: when little on it changes, when hot items change all the time, and with a field of
 * each item that is another one for each user. Each load has processes of its own.
 */
export const subtreesPage: Scenario = {
  name: "subtrees-page",
  title: "page, 32 callers, source 3 ms, the category as a subtree",
  measures: PAGE_LOADS.flatMap(({ name, ofByHand, ofFields }): Measure[] => [
    { name: `${name}: of by hand`, unit: "x", better: "more", targets: ofByHand },
    { name: `${name}: of fields`, unit: "x", better: "more", targets: ofFields },
    { name: `${name}: of no cache`, unit: "x", better: "more" },
    { name: `${name}: CPU a request`, unit: "us", better: "less" },
    { name: `${name}: source calls a request`, unit: "", better: "less" },
    {
      name: `${name}: stale values`,
      unit: "%",
      better: "less",
      targets: OURS.map((contender) => ({ contender, bound: 0 })),
    },
  ]),
  run: async (ctx): Promise<readonly Row[]> => {
    const rows = new Map<string, Row["values"]>();
    for (const load of PAGE_LOADS)
      for (const { contender, values } of rowsOf(await measurePage(ctx, load)))
        rows.set(contender, { ...rows.get(contender), ...values });
    return [...rows].map(([contender, values]) => ({ contender, values }));
  },
};

async function measurePage(ctx: Context, { name: load, mutationShare, isPersonal }: PageLoad): Promise<Samples> {
  const taken: Samples = new Map();
  const names = SUBTREE_CONTENDERS.map(({ name }) => name);
  const speedName = `${load}: requests/s`;
  for (let start = 0; start < ctx.count(1, 2); start++) {
    await ctx.control.flushall();
    await withFleets(ctx, names, { program: PAGE, setup: {} }, async (fleets) => {
      const seed = ctx.seed + 1_000 * start;
      const visit = (name: string, requests: number, round: number): Promise<VisitReport> => {
        const request: Visit = { callers: 32, callMs: 3, requests, seed: seed + round, mutationShare, isPersonal };
        return (fleets.get(name) as Fleet<PageCommands>).send(0, "visit", request);
      };
      for (const name of names) await visit(name, PAGE_WARM_UP, 0);
      const measure = async (name: string, round: number): Promise<Sample> => {
        const { waits, elapsedMs, cpuMs, sourceCalls, values, staleValues } = await visit(
          name,
          PAGE_REQUESTS,
          round + 1,
        );
        return {
          [speedName]: (waits.length / elapsedMs) * 1e3,
          [`${load}: CPU a request`]: (cpuMs / waits.length) * 1e3,
          [`${load}: source calls a request`]: sourceCalls / waits.length,
          [`${load}: stale values`]: (staleValues / Math.max(1, values)) * 100,
        };
      };
      const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => {
        const of = (other: string): number =>
          (samples.get(name)?.[speedName] ?? Number.NaN) / (samples.get(other)?.[speedName] ?? Number.NaN);
        return {
          ...samples.get(name),
          [`${load}: of by hand`]: of(byHand.name),
          [`${load}: of fields`]: of(name.includes("near") ? cachedNear.name : cachedRedis.name),
          [`${load}: of no cache`]: of(dataLoaderOnly.name),
        };
      };
      await interleave(names, ctx.count(3, 5), measure, relate, taken);
    });
  }
  return taken;
}

const MISSES: Program<{ readonly contender: MissContender; readonly prefix: string }, MissCommands> = {
  module: "servers/miss-process",
};
const RUNTIMES: readonly MissRuntime[] = ["graphql-js, memory", "Apollo, Redis"];
const MISS_CALLERS = 8;
const MISS_PAGES = 48;
/** What a miss is compared with: the same, without subtrees. */
const PLAIN: Readonly<Partial<Record<MissContender, MissContender>>> = {
  "graphql-cached, subtree": "graphql-cached, page",
  "graphql-cached, subtree over films": "graphql-cached, page and films",
};
const OF_PLAIN = "of the same without subtree";

/** Every request is a new page: what a build costs, which is paid for by the hits that follow. */
export const subtreeMisses: Scenario = {
  name: "subtrees-misses",
  title: `misses of subtrees, new pages of 100 objects, ${MISS_CALLERS} callers, source without delay`,
  measures: RUNTIMES.flatMap((runtime): Measure[] => [
    { name: `${runtime}: time`, unit: "us", better: "less" },
    { name: `${runtime}: CPU`, unit: "us", better: "less" },
    ...["time", "CPU"].map(
      (what): Measure => ({
        name: `${runtime}: ${what} ${OF_PLAIN}`,
        unit: "x",
        better: "less",
        targets: [{ contender: "graphql-cached, subtree", bound: 1.5 }],
      }),
    ),
  ]),
  run: async (ctx): Promise<readonly Row[]> => {
    const taken: Samples = new Map();
    for (let start = 0; start < ctx.count(1, 2); start++) {
      await ctx.control.flushall();
      await withFleets(ctx, MISS_CONTENDERS, { program: MISSES, setup: {} }, async (fleets) => {
        const measure = async (name: string): Promise<Sample> => {
          const sample: Record<string, number> = {};
          for (const runtime of RUNTIMES) {
            const fleet = fleets.get(name) as Fleet<MissCommands>;
            const { elapsedMs, cpuMs } = await fleet.send(0, "miss", {
              runtime,
              pages: MISS_PAGES,
              callers: MISS_CALLERS,
            });
            sample[`${runtime}: time`] = (elapsedMs / MISS_PAGES) * 1e3;
            sample[`${runtime}: CPU`] = (cpuMs / MISS_PAGES) * 1e3;
          }
          return sample;
        };
        const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => {
          const own = samples.get(name) ?? {};
          const plain = samples.get(PLAIN[name as MissContender] ?? "");
          if (plain === undefined) return own;
          const ratios = Object.keys(own).map((what) => [
            `${what} ${OF_PLAIN}`,
            (own[what] ?? Number.NaN) / (plain[what] ?? Number.NaN),
          ]);
          return { ...own, ...Object.fromEntries(ratios) };
        };
        // V8 compiles what they run.
        await interleave(MISS_CONTENDERS, ctx.count(4, 8), measure);
        await interleave(MISS_CONTENDERS, ctx.count(8, 16), measure, relate, taken);
      });
    }
    return rowsOf(taken);
  },
};
