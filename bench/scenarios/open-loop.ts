import { baseline } from "../contenders/baseline.js";
import { graphqlCached, graphqlCachedNear } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { FRESH, fillInTurns, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import { percentile } from "../statistics.js";

const KEYS = 10;
const RATES = [1_000, 4_000];
const FOR_MS = 500;
/** As many ids as a near cache holds. */
const IDS = 8_000;
const PERCENTILES = [0.5, 0.99] as const;

const measureOf = (rate: number, ratio: number): string => `p${ratio * 100} at ${rate.toLocaleString("en")}/s`;

/**
 * The latency of requests that arrive at random times, whether or not earlier ones have completed, counted from their
 * scheduled time. Callers that wait for each other would hide the queue behind a slow request.
 */
export const openLoop: Scenario = {
  isLong: true,
  name: "open-loop",
  title: `latency of requests for ${KEYS} warm keys that arrive by schedule`,
  measures: [
    ...RATES.flatMap((rate) =>
      PERCENTILES.map((ratio) => ({ name: measureOf(rate, ratio), unit: "ms", better: "less" }) as const),
    ),
    { name: `CPU at ${RATES.at(-1)?.toLocaleString("en")}/s`, unit: "%", better: "less" },
    { name: "errors", unit: "", better: "less" },
  ],
  charts: [{ kind: "bars", measure: measureOf(RATES.at(-1) ?? 0, 0.99) }],
  run: (ctx) => {
    const contenders = [graphqlCached, graphqlCachedNear, baseline, layeredLoaderMany];
    const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
    return withFleets(ctx, contenders, options, async (fleets) => {
      const space = { name: "warm", size: IDS };
      await fillInTurns(fleets, space, 100);
      const arrivals = { do: "arrivals", keys: KEYS, space } as const;
      for (const fleet of fleets.values())
        await fleet.send(0, { ...arrivals, ratePerS: RATES[0] as number, forMs: 500, seed: ctx.seed });
      return interleave(fleets, ctx.rounds(2, 10), async (fleet, round) => {
        const sample: Record<string, number> = { errors: 0 };
        for (const ratePerS of RATES) {
          const seed = ctx.seed + round;
          const { waits, errors, cpuMs } = await fleet.send(0, { ...arrivals, ratePerS, forMs: FOR_MS, seed });
          for (const ratio of PERCENTILES) sample[measureOf(ratePerS, ratio)] = percentile(waits, ratio);
          sample.errors = (sample.errors ?? 0) + errors;
          sample[`CPU at ${ratePerS.toLocaleString("en")}/s`] = (cpuMs / FOR_MS) * 100;
        }
        return sample satisfies Sample;
      });
    });
  },
};
