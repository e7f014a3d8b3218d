import { byHand } from "../page/by-hand.js";
import { cached, cachedNoMemory, cachedTwoSeconds } from "../page/graphql-cached.js";
import {
  type Context,
  interleave,
  type Measure,
  rowsOf,
  type Sample,
  type Samples,
  type Scenario,
  withFleets,
} from "../scenario.js";
import { PAGE, type PageFleet, warmUp } from "./page.js";

const CONTENDERS = [byHand, cached, cachedNoMemory, cachedTwoSeconds].map(({ name }) => name);
/** Callers that each open one page after the other: one page at a time, and as many at once as on the page. */
const LOADS = [
  { suffix: "", callers: 1, pages: 100, targets: [{ contender: cached.name, bound: 1.5 }] },
  { suffix: ", 32 callers", callers: 32, pages: 160, targets: [] },
] as const;
const CPU = "CPU of by hand";
const CPU_A_PAGE = "CPU a page";

/** Pages that nobody has opened before: 62 keys each, all of which are loaded and stored. */
export const newPages: Scenario = {
  name: "new-pages",
  title: "page of 62 new keys, one caller, source 3 ms",
  isQuick: true,
  measures: [
    ...LOADS.flatMap(({ suffix, targets }): Measure[] => [
      { name: `${CPU}${suffix}`, unit: "x", better: "less", targets },
      { name: `${CPU_A_PAGE}${suffix}`, unit: "us", better: "less" },
    ]),
    { name: "keys loaded a page", unit: "", better: "less" },
  ],
  run: async (ctx) => {
    const taken: Samples = new Map();
    for (let start = 0; start < ctx.count(1, 2); start++) {
      await ctx.control.flushall();
      await withFleets(ctx, CONTENDERS, { program: PAGE, setup: {} }, async (fleets) => {
        await warmUp(ctx, fleets, { seed: ctx.seed, requests: { all: 1_000, popular: 1_000 } });
        const measure = (name: string): Promise<Sample> => measureNewPages(ctx, fleets.get(name) as PageFleet);
        const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => {
          const ratios = LOADS.map(({ suffix }) => {
            const cpuOf = (one: string): number => samples.get(one)?.[`${CPU_A_PAGE}${suffix}`] ?? Number.NaN;
            return [`${CPU}${suffix}`, cpuOf(name) / cpuOf(byHand.name)];
          });
          return { ...samples.get(name), ...Object.fromEntries(ratios) };
        };
        for (const name of CONTENDERS) await measure(name);
        await interleave(CONTENDERS, ctx.count(3, 6), measure, relate, taken);
      });
    }
    return rowsOf(taken);
  },
};

async function measureNewPages(ctx: Context, fleet: PageFleet): Promise<Sample> {
  const sample: Record<string, number> = {};
  for (const { suffix, callers, pages } of LOADS) {
    const visit = { callers, callMs: 3, requests: ctx.count(pages, pages), seed: ctx.seed, kind: "new" } as const;
    const report = await fleet.send(0, "visit", visit);
    if (report.errors > 0) throw new Error(`expected no failed request, got ${report.errors}`);
    sample[`${CPU_A_PAGE}${suffix}`] = (report.cpuMs / report.requests) * 1e3;
    sample["keys loaded a page"] = report.keysLoaded / report.requests;
  }
  return sample;
}
