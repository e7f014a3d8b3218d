import { asyncCacheDedupe } from "../contenders/async-cache-dedupe.js";
import { bentocache } from "../contenders/bentocache.js";
import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import { sharedWait } from "../limits/shared-wait.js";
import { allBut, type Row, type Scenario } from "../scenario.js";
import { spreadOf } from "../statistics.js";
import { measureStampede } from "./stampede.js";

/** Four processes read a hundred missing keys at the same instant, 50 requests each. The load takes 100 ms. */
export const coldKeys: Scenario = {
  name: "cold-keys",
  title: "100 cold keys, 4 processes x 50 requests",
  measures: [
    { name: "loads", unit: "", better: "less", target: { bound: 100 } },
    { name: "p99", unit: "ms", better: "less", target: { bound: "best peer" } },
    { name: "p50", unit: "ms", better: "less" },
    { name: "CPU per waiting caller", unit: "us", better: "less" },
    { name: "Redis CPU", unit: "ms", better: "less" },
    { name: "Redis CPU vs async-cache-dedupe", unit: "x", better: "less", target: { bound: 2 } },
  ],
  charts: [
    { kind: "bars", measure: "p99" },
    { kind: "bars", measure: "Redis CPU vs async-cache-dedupe" },
  ],
  run: async (ctx) => {
    // Without the lock recipe, which polls for seconds here, and the slowest peer. Both are measured in cold-key.
    const contenders = [...allBut(layeredLoaderMany.name, lockRecipe.name, bentocache.name), sharedWait];
    const rows = await measureStampede(ctx, { contenders, requests: 50, keys: 100 });
    const reference =
      rows.find(({ contender }) => contender === asyncCacheDedupe.name)?.values["Redis CPU"]?.median ?? 1;
    const relative = (cpu: number): number => cpu / reference;
    return rows.map(({ contender, kind, values }): Row => {
      const cpu = values["Redis CPU"] ?? spreadOf([]);
      const ratio = { median: relative(cpu.median), low: relative(cpu.low), high: relative(cpu.high), runs: cpu.runs };
      return { contender, kind, values: { ...values, "Redis CPU vs async-cache-dedupe": ratio } };
    });
  },
};
