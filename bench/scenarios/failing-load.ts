import { bentocache } from "../contenders/bentocache.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import type { Fleet } from "../fleet.js";
import { instantMs, pause } from "../instant.js";
import { allBut, FRESH, interleave, type Sample, type Scenario, withFleets } from "../scenario.js";
import { max, percentile, sum } from "../statistics.js";
import { LOAD_MS } from "./stampede.js";

const CALLERS = 50;
const START_MS = 40;
/** The first callers pay for the compilation of the code. */
const WARM_UPS = 60;
/** When the callers repeat their requests, counted from the first ones: after the failure, within its back-off. */
const REPEAT_MS = LOAD_MS + 200;

/** A load fails after 100 ms for 200 callers in four processes, which repeat their requests within the back-off. */
export const failingLoad: Scenario = {
  name: "failing-load",
  title: "failing load, 4 processes x 50 callers",
  measures: [
    { name: "loads per back-off", unit: "", better: "less", target: { bound: 1 } },
    { name: "loads of the first callers", unit: "", better: "less" },
    { name: "p99 / load", unit: "x", better: "less", target: { bound: 1.1 } },
    { name: "max / load", unit: "x", better: "less" },
    { name: "callers without an error", unit: "", better: "less" },
  ],
  run: (ctx) => {
    const options = { count: 4, policy: FRESH, source: { loadMs: 10, fails: true } };
    const burst = async (fleet: Fleet, id: string): Promise<{ waits: number[]; errors: number }> => {
      const requests = Array.from({ length: CALLERS }, () => [id]);
      const reports = await fleet.sendAll({ do: "burst", requests, atMs: instantMs() + START_MS });
      return { waits: reports.flatMap(({ waits }) => waits), errors: sum(reports.map(({ errors }) => errors)) };
    };
    const measure = async (fleet: Fleet, round: number): Promise<Sample> => {
      // Not counted: the processes were idle while others were measured.
      await burst(fleet, `before-${round}`);
      await fleet.takeLoads();
      const startedAt = instantMs();
      const first = await burst(fleet, `failing-${round}`);
      const firstLoads = (await fleet.takeLoads()).length;
      await pause(startedAt + START_MS + REPEAT_MS - instantMs());
      await burst(fleet, `failing-${round}`);
      return {
        "loads per back-off": firstLoads + (await fleet.takeLoads()).length,
        "loads of the first callers": firstLoads,
        "p99 / load": percentile(first.waits, 0.99) / LOAD_MS,
        "max / load": max(first.waits) / LOAD_MS,
        "callers without an error": CALLERS * fleet.size - first.errors,
      };
    };
    // bentocache and the lock recipe load once per caller, one after the other, which takes seconds per round.
    const contenders = allBut(layeredLoaderMany.name, bentocache.name, lockRecipe.name);
    return withFleets(ctx, contenders, options, async (fleets) => {
      for (const fleet of fleets.values()) {
        for (let round = 0; round < ctx.rounds(1, WARM_UPS); round++) await burst(fleet, `warm-up-${round}`);
        await fleet.sendAll({ do: "source", settings: { loadMs: LOAD_MS } });
        await fleet.takeLoads();
      }
      return interleave(fleets, ctx.rounds(2, 20), measure);
    });
  },
};
