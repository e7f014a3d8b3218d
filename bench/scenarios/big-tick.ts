import { baseline } from "../contenders/baseline.js";
import { graphqlCached } from "../contenders/graphql-cached.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import type { Fleet } from "../fleet.js";
import { pause } from "../instant.js";
import { chunkedReader } from "../limits/tick-reader.js";
import { FRESH, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import { sum } from "../statistics.js";
import { keys } from "./keys.js";

const KEYS = 10_000;

/** One request reads ten thousand keys in one tick: first all of them cold, then all of them warm. */
export const bigTick: Scenario = {
  name: "big-tick",
  title: "10,000 keys in one tick",
  measures: [
    { name: "longest stall, warm", unit: "ms", better: "less", target: { bound: 50 } },
    { name: "longest stall, cold", unit: "ms", better: "less", target: { bound: 50 } },
    { name: "loads at the next read", unit: "", better: "less", target: { bound: 0 } },
    { name: "time, warm", unit: "ms", better: "less" },
    { name: "time, cold", unit: "ms", better: "less" },
  ],
  charts: [{ kind: "bars", measure: "longest stall, warm" }],
  run: (ctx) => {
    const contenders = [graphqlCached, baseline, layeredLoaderMany, chunkedReader];
    const options = { count: 1, policy: FRESH, source: { loadMs: 0, fails: false } };
    return withFleets(ctx, contenders, options, async (fleets) => {
      for (const fleet of fleets.values()) await measureBigTick(fleet, "warm-up");
      return interleave(fleets, ctx.rounds(2, 20), (fleet, round) => measureBigTick(fleet, `round-${round}`));
    });
  },
};

async function measureBigTick(fleet: Fleet, name: string): Promise<Sample> {
  const command = { do: "burst", requests: [keys(name, KEYS)], atMs: 0, watchesStalls: true } as const;
  const cold = await fleet.send(0, command);
  await pause(300);
  await fleet.takeLoads();
  const warm = await fleet.send(0, command);
  return {
    "longest stall, warm": warm.stallMs,
    "longest stall, cold": cold.stallMs,
    "loads at the next read": sum((await fleet.takeLoads()).map((load) => load.keys)),
    "time, warm": sum(warm.waits),
    "time, cold": sum(cold.waits),
  };
}
