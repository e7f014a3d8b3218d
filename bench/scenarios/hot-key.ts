import { baseline } from "../contenders/baseline.js";
import { bentocache } from "../contenders/bentocache.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { pause } from "../instant.js";
import { allBut, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import type { Load } from "../source.js";
import { max } from "../statistics.js";
import { LOAD_MS } from "./stampede.js";

const MAX_AGE = 1;
/** Loads that begin within this time of each other belong to the same expiry. */
const EXPIRY_WINDOW_MS = 1.5 * LOAD_MS;

/** Four processes constantly read one key that expires every second and takes 100 ms to load. */
export const hotKey: Scenario = {
  name: "hot-key",
  title: "hot key expires under load, stale values served",
  measures: [
    { name: "requests > 50 ms", unit: "", better: "less", target: { bound: 0 } },
    { name: "loads per expiry", unit: "", better: "less", target: { bound: 1.25 } },
    { name: "loads per maxAge", unit: "", better: "less" },
    { name: "longest wait", unit: "ms", better: "less" },
    { name: "longest stall", unit: "ms", better: "less" },
    { name: "requests", unit: "", better: "more" },
  ],
  run: (ctx) => {
    const policy = { maxAge: MAX_AGE, staleFor: 60, isInvalidated: false };
    const options = { count: 4, policy, source: { loadMs: LOAD_MS, fails: false } };
    // Only contenders that serve stale values, without the slowest. A round measures one expiry.
    const forMs = MAX_AGE * 1_000 + 400;
    const contenders = allBut(layeredLoaderMany.name, baseline.name, lockRecipe.name, bentocache.name);
    const traffic = { do: "traffic", callers: 10, pauseMs: 5, coldEvery: 0, patienceMs: 2_000 } as const;
    const measure = async (fleet: Fleet, round: number): Promise<Sample> => {
      const ids = [`hot-${round}`];
      await fleet.send(0, { do: "warm", ids });
      await pause(50);
      await fleet.takeLoads();
      const reports = await fleet.sendAll({ ...traffic, forMs, ids });
      await pause(2 * LOAD_MS);
      const loads = await fleet.takeLoads();
      const waits = reports.flatMap((report) => report.waits);
      return {
        "requests > 50 ms": waits.filter((wait) => wait > 50).length,
        "loads per expiry": loads.length / Math.max(1, countExpiries(loads)),
        "loads per maxAge": loads.length / (forMs / 1_000 / MAX_AGE),
        "longest wait": max(waits),
        "longest stall": max(reports.map(({ stallMs }) => stallMs)),
        requests: waits.length,
      };
    };
    return withFleets(ctx, contenders, options, async (fleets) => {
      for (const fleet of fleets.values()) await fleet.sendAll({ ...traffic, forMs: 500, ids: ["warm-up"] });
      return interleave(fleets, ctx.rounds(2, 20), measure);
    });
  },
};

function countExpiries(loads: readonly Load[]): number {
  return loads.filter(({ at }, index) => at - (loads[index - 1]?.at ?? Number.NEGATIVE_INFINITY) > EXPIRY_WINDOW_MS)
    .length;
}
