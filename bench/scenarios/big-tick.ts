import { pause } from "../instant.js";
import type { ContenderName } from "../loaders/contenders.js";
import { interleave, rowsOf, type Sample, type Scenario, withFleets } from "../scenario.js";
import { sum } from "../statistics.js";
import { LOADERS, type LoaderFleet } from "./reads.js";

const KEYS = 10_000;
const CONTENDERS: readonly ContenderName[] = ["by hand", "graphql-cached", "layered-loader getMany"];
const OURS = "graphql-cached";

/** One request reads ten thousand keys in one tick: first all of them new, then all of them warm. */
export const bigTick: Scenario = {
  name: "big-tick",
  title: "10,000 keys in one tick",
  measures: [
    { name: "time of new keys, of by hand", unit: "x", better: "less", targets: [{ contender: OURS, bound: 3 }] },
    { name: "time, new", unit: "ms", better: "less" },
    { name: "time, warm", unit: "ms", better: "less" },
    { name: "longest stall, new", unit: "ms", better: "less", targets: [{ contender: OURS, bound: 63 }] },
    { name: "longest stall, warm", unit: "ms", better: "less", targets: [{ contender: OURS, bound: 50 }] },
    { name: "loads when warm", unit: "", better: "less", targets: [{ contender: OURS, bound: 0 }] },
  ],
  run: (ctx) =>
    withFleets(ctx, CONTENDERS, { program: LOADERS, setup: {} }, async (fleets) => {
      for (const fleet of fleets.values()) await measureBigTick(fleet, "warm-up");
      const measure = (name: string, round: number): Promise<Sample> =>
        measureBigTick(fleets.get(name) as LoaderFleet, `round-${round}`);
      const relate = (samples: ReadonlyMap<string, Sample>, name: string): Sample => ({
        ...samples.get(name),
        "time of new keys, of by hand":
          (samples.get(name)?.["time, new"] ?? Number.NaN) / (samples.get("by hand")?.["time, new"] ?? Number.NaN),
      });
      return rowsOf(await interleave(CONTENDERS, ctx.count(3, 15), measure, relate));
    }),
};

async function measureBigTick(fleet: LoaderFleet, name: string): Promise<Sample> {
  const ids = Array.from({ length: KEYS }, (_, nth) => `${name}-${nth}`);
  const command = { requests: 1, ids, atMs: 0, watchesStalls: true };
  const cold = await fleet.send(0, "burst", command);
  await pause(300);
  await fleet.send(0, "loads", {});
  const warm = await fleet.send(0, "burst", command);
  return {
    "time, new": sum(cold.waits),
    "time, warm": sum(warm.waits),
    "longest stall, new": cold.stallMs,
    "longest stall, warm": warm.stallMs,
    "loads when warm": sum((await fleet.send(0, "loads", {})).map(({ keys }) => keys)),
  };
}
