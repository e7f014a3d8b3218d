import { graphqlCached } from "../contenders/graphql-cached.js";
import type { Fleet } from "../fleet.js";
import { pause } from "../instant.js";
import { sharedWait } from "../limits/shared-wait.js";
import { FRESH, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import { sum } from "../statistics.js";
import { keys } from "./keys.js";

/** Loads are long enough for all readers to arrive before they end. */
const CROWDS = [
  { readers: 20_000, keys: 1, loadMs: 500 },
  { readers: 20_000, keys: 1_000, loadMs: 500 },
  { readers: 130_000, keys: 1, loadMs: 1_500 },
];

const titleOf = ({ readers, keys: count }: { readers: number; keys: number }): string =>
  `${readers.toLocaleString("en")} readers of ${count === 1 ? "one key" : `${count.toLocaleString("en")} keys`}`;

/** Readers in one process wait for a load that another process has begun. They arrive a few at a time. */
export const crowd: Scenario = {
  name: "crowd",
  title: "20,000 / 130,000 waiting readers",
  measures: [
    ...CROWDS.map(
      (one) => ({ name: `longest stall, ${titleOf(one)}`, unit: "ms", better: "less", target: { bound: 50 } }) as const,
    ),
    { name: "CPU per reader, 130,000", unit: "us", better: "less" },
    { name: "loads per key", unit: "", better: "less" },
    { name: "errors", unit: "", better: "less" },
  ],
  run: (ctx) => {
    const options = { count: 2, policy: FRESH, source: { loadMs: 0, fails: false } };
    return withFleets(ctx, [graphqlCached, sharedWait], options, async (fleets) => {
      for (const fleet of fleets.values()) await measureCrowds(fleet, "warm-up", CROWDS.slice(0, 1));
      return interleave(fleets, ctx.rounds(1, 20), (fleet, round) => measureCrowds(fleet, `round-${round}`, CROWDS));
    });
  },
};

async function measureCrowds(fleet: Fleet, name: string, crowds: typeof CROWDS): Promise<Sample> {
  const sample: Record<string, number> = { errors: 0, "loads per key": 0 };
  for (const { readers, keys: count, loadMs } of crowds) {
    await fleet.sendAll({ do: "source", settings: { loadMs } });
    const ids = keys(`${name}-${readers}-of-${count}`, count);
    await fleet.takeLoads();
    const holding = fleet.send(0, { do: "warm", ids });
    await pause(150);
    const report = await fleet.send(1, { do: "crowd", readers, ids });
    await holding;
    sample[`longest stall, ${titleOf({ readers, keys: count })}`] = report.stallMs;
    sample.errors = (sample.errors ?? 0) + report.errors;
    const loads = sum((await fleet.takeLoads()).map((load) => load.keys)) / count;
    sample["loads per key"] = Math.max(sample["loads per key"] ?? 0, loads);
    if (readers === 130_000) sample["CPU per reader, 130,000"] = (report.cpuMs * 1e3) / readers;
  }
  return sample;
}
