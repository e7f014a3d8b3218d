import { Fleet } from "../fleet.js";
import { byHand, cachedNear, cachedRedis, PAGE_CONTENDERS, responseCache } from "../page/contenders.js";
import type { PageCommands } from "../page/process.js";
import { placeRedis } from "../placement.js";
import {
  type Context,
  interleave,
  type Measure,
  newPrefix,
  type Row,
  rowsOf,
  type Sample,
  type Scenario,
} from "../scenario.js";
import { percentile } from "../statistics.js";
import { PAGE } from "./page.js";

const SECONDS = [1, 2, 3] as const;
const ORDINALS = ["first", "second", "third"] as const;
const nameOf = (second: number): string => `${ORDINALS[second - 1]} second`;

const measuresOf = (bound: number): readonly Measure[] => [
  ...SECONDS.flatMap((second): Measure[] => [
    {
      name: `${nameOf(second)}, of by hand`,
      unit: "x",
      better: "more",
      targets: second > 1 ? [] : [cachedRedis, cachedNear].map(({ name }) => ({ contender: name, bound })),
    },
    { name: `${nameOf(second)}, requests/s`, unit: "", better: "more" },
    { name: `${nameOf(second)}, p99`, unit: "ms", better: "less" },
  ]),
];

/** Whom a warm Redis helps. */
const ON_REDIS = [byHand, cachedRedis, cachedNear, responseCache];
/** Requests of the process that has stored pages in the warm Redis. */
const REQUESTS_BEFORE = 6_000;

/** Measures the page in the first seconds of new processes. `isWarm`: with what an earlier process has stored. */
async function measureFirstSeconds(ctx: Context, isWarm: boolean): Promise<readonly Row[]> {
  await placeRedis(ctx.control, 1);
  const start = (contender: string, prefix: string): Promise<Fleet<PageCommands>> =>
    Fleet.start(1, { module: PAGE.module, port: ctx.redis.port, setup: { contender, prefix } });
  const visit = { callers: 32, callMs: 3 };
  const contenders = (isWarm ? ON_REDIS : PAGE_CONTENDERS).map(({ name }) => name);
  const prefixes = new Map(contenders.map((name) => [name, newPrefix()]));
  if (isWarm)
    for (const [name, prefix] of prefixes) {
      const fleet = await start(name, prefix);
      await fleet.send(0, "visit", { ...visit, requests: ctx.count(3_000, REQUESTS_BEFORE), seed: ctx.seed });
      await fleet.stop();
    }
  const measure = async (contender: string, round: number): Promise<Sample> => {
    const fleet = await start(contender, isWarm ? (prefixes.get(contender) as string) : newPrefix());
    const forMs = SECONDS.length * 1_000;
    const { waits, endedAt } = await fleet.send(0, "visit", { ...visit, forMs, seed: ctx.seed + 1 + round });
    await fleet.stop();
    const samples = SECONDS.flatMap((second): [string, number][] => {
      const ended = waits.filter((_, nth) => Math.floor((endedAt[nth] as number) / 1_000) === second - 1);
      return [
        [`${nameOf(second)}, requests/s`, ended.length],
        ...(ended.length === 0 ? [] : [[`${nameOf(second)}, p99`, percentile(ended, 0.99)] as [string, number]]),
      ];
    });
    return Object.fromEntries(samples);
  };
  const relate = (samples: ReadonlyMap<string, Sample>, contender: string): Sample => {
    const own = samples.get(contender) ?? {};
    const base = samples.get(byHand.name) ?? {};
    const ratios = SECONDS.map((second) => {
      const measure = `${nameOf(second)}, requests/s`;
      return [`${nameOf(second)}, of by hand`, (own[measure] ?? 0) / (base[measure] ?? Number.NaN)];
    });
    return { ...own, ...Object.fromEntries(ratios) };
  };
  return rowsOf(await interleave(contenders, ctx.count(1, 10), measure, relate));
}

/** The page in the first seconds of a process, on an empty Redis: nothing is compiled, and nothing is stored. */
export const firstSeconds: Scenario = {
  name: "first-seconds",
  title: "page, first seconds of a new process, empty Redis",
  isQuick: true,
  measures: measuresOf(0.6),
  run: (ctx) => measureFirstSeconds(ctx, false),
};

/** The same after a deployment: an earlier process has stored most pages. */
export const firstSecondsWarm: Scenario = {
  name: "first-seconds-warm",
  title: "page, first seconds of a new process, warm Redis",
  isQuick: true,
  measures: measuresOf(0.8),
  run: (ctx) => measureFirstSeconds(ctx, true),
};
