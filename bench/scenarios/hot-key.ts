import { floor } from "../contenders/floor.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { pause } from "../instant.js";
import { allBut, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import type { Load } from "../source.js";
import { max } from "../statistics.js";
import { LOAD_MS } from "./stampede.js";

const MAX_AGE = 2;
/** Loads that begin within this time of one another belong to the same expiry. */
const WAVE_MS = 1.5 * LOAD_MS;

/** One key of four processes, asked for all the time, that expires every two seconds and takes a tenth of a second to load. */
export const hotKey: Scenario = {
  name: "hot-key",
  title: "hot key expires under load, stale responder on",
  measures: [
    { name: "requests > 50 ms", unit: "", better: "less", target: 0 },
    { name: "loads an expiry", unit: "", better: "less", target: 1.25 },
    { name: "loads a maxAge", unit: "", better: "less" },
    { name: "longest wait", unit: "ms", better: "less" },
    { name: "longest stall", unit: "ms", better: "less" },
    { name: "requests", unit: "", better: "more" },
  ],
  run: (ctx) => {
    const keeping = { maxAge: MAX_AGE, staleFor: 60, isInvalidated: false };
    const options = { count: 4, keeping, source: { loadMs: LOAD_MS, fails: false } };
    // In a quick run one expiry, of those who serve what is stale.
    const forMs = ctx.isQuick ? 2_600 : 10_000;
    const contenders = ctx.isQuick
      ? allBut(layeredLoaderMany.name, floor.name, lockRecipe.name)
      : allBut(layeredLoaderMany.name);
    const order = { do: "pour", callers: 10, pauseMs: 5, coldEvery: 0, patienceMs: 2_000 } as const;
    const measure = async (fleet: Fleet, round: number): Promise<Sample> => {
      const ids = [`hot-${round}`];
      await fleet.all({ ...order, forMs: ctx.isQuick ? 500 : 800, ids: [`warm-up-${round}`] });
      await fleet.ask(0, { do: "warm", ids });
      await pause(50);
      await fleet.loads();
      const reports = await fleet.all({ ...order, forMs, ids });
      await pause(2 * LOAD_MS);
      const loads = await fleet.loads();
      const waits = reports.flatMap((report) => report.waits);
      return {
        "requests > 50 ms": waits.filter((wait) => wait > 50).length,
        "loads an expiry": loads.length / Math.max(1, waves(loads)),
        "loads a maxAge": loads.length / (forMs / 1_000 / MAX_AGE),
        "longest wait": max(waits),
        "longest stall": max(reports.map(({ stallMs }) => stallMs)),
        requests: waits.length,
      };
    };
    return withFleets(ctx, contenders, options, (fleets) => interleave(fleets, ctx.isQuick ? 1 : 3, measure));
  },
};

function waves(loads: readonly Load[]): number {
  return loads.filter(({ at }, index) => at - (loads[index - 1]?.at ?? Number.NEGATIVE_INFINITY) > WAVE_MS).length;
}
