import { Fleet } from "../fleet.js";
import { byHand, byHandAsFound } from "../page/by-hand.js";
import { cached, cachedNoMemory, cachedTwoSeconds } from "../page/graphql-cached.js";
import { mistakeMeasures, withMistakes } from "../page/mistakes.js";
import type { PageCommands, PageSetup, VisitReport } from "../page/process.js";
import { placeRedis } from "../placement.js";
import { interleave, type Measure, newPrefix, rowsOf, type Sample, type Scenario } from "../scenario.js";
import { addReport, PAGE, type Reports } from "./page.js";

const CONTENDERS = [byHand, byHandAsFound, cached, cachedNoMemory, cachedTwoSeconds].map(({ name }) => name);
const REQUESTS = 700;
const STATES = [
  { suffix: ", empty Redis", bound: 1, firstVersion: 0 },
  { suffix: ", warm Redis", bound: 1.4, firstVersion: REQUESTS },
] as const;

/**
 * The page in a new process, which has compiled nothing, on an empty Redis, and then in another one that gets the same requests
 * after a deployment, so that all that is asked for is stored.
 */
export const firstRequests: Scenario = {
  name: "first-requests",
  title: `page, first ${REQUESTS} requests of a new process, 32 callers, source 3 ms`,
  isQuick: true,
  measures: [
    ...STATES.flatMap(({ suffix, bound }): Measure[] => [
      { name: `of by hand${suffix}`, unit: "x", better: "more", targets: [{ contender: cached.name, bound }] },
      { name: `CPU of by hand${suffix}`, unit: "x", better: "less" },
      { name: `requests/s${suffix}`, unit: "", better: "more" },
      { name: `CPU a request${suffix}`, unit: "us", better: "less" },
    ]),
    ...mistakeMeasures([cached.name, cachedNoMemory.name]),
  ],
  run: async (ctx) => {
    await placeRedis(ctx.control, 1);
    const reports: Reports = new Map();
    const visit = async (setup: PageSetup, seed: number): Promise<VisitReport> => {
      const fleet = await Fleet.start<PageCommands>(1, { module: PAGE.module, port: ctx.redis.port, setup });
      try {
        return await fleet.send(0, "visit", { callers: 32, callMs: 3, requests: REQUESTS, seed });
      } finally {
        await fleet.stop();
      }
    };
    const measure = async (contender: string, round: number): Promise<Sample> => {
      const prefix = newPrefix();
      const samples: Sample[] = [];
      for (const { suffix, firstVersion } of STATES) {
        const report = await visit({ contender, prefix, firstVersion }, ctx.seed + round);
        addReport(reports, contender, report);
        samples.push({
          [`requests/s${suffix}`]: (REQUESTS / report.elapsedMs) * 1e3,
          [`CPU a request${suffix}`]: (report.cpuMs / REQUESTS) * 1e3,
        });
      }
      return Object.assign({}, ...samples) as Sample;
    };
    const relate = (samples: ReadonlyMap<string, Sample>, contender: string): Sample => {
      const own = samples.get(contender) ?? {};
      const ratio = (measure: string): number =>
        (own[measure] ?? Number.NaN) / (samples.get(byHand.name)?.[measure] ?? Number.NaN);
      const ratios = STATES.flatMap(({ suffix }) => [
        [`of by hand${suffix}`, ratio(`requests/s${suffix}`)],
        [`CPU of by hand${suffix}`, ratio(`CPU a request${suffix}`)],
      ]);
      return { ...own, ...Object.fromEntries(ratios) };
    };
    return withMistakes(
      rowsOf(await interleave(CONTENDERS, ctx.count(2, 12), measure, relate)),
      reports,
      byHandAsFound.name,
    );
  },
};
