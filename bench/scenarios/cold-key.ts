import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { sharedWait } from "../limits/shared-wait.js";
import { allBut, type Scenario } from "../scenario.js";
import { measureStampede } from "./stampede.js";

/** Four processes read one missing key at the same instant, 250 requests each. The load takes 100 ms. */
export const coldKey: Scenario = {
  name: "cold-key",
  title: "cold key, 4 processes x 250 callers",
  measures: [
    { name: "loads", unit: "", better: "less", target: { bound: 1 } },
    { name: "p99", unit: "ms", better: "less", target: { bound: "best peer", plus: 5 } },
    { name: "p50", unit: "ms", better: "less" },
    { name: "CPU per waiting caller", unit: "us", better: "less", target: { bound: 15 } },
    { name: "Redis CPU", unit: "ms", better: "less" },
  ],
  charts: [{ kind: "bars", measure: "CPU per waiting caller" }],
  run: (ctx) =>
    measureStampede(ctx, { contenders: [...allBut(layeredLoaderMany.name), sharedWait], requests: 250, keys: 1 }),
};
