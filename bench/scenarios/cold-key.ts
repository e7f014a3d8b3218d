import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { allBut, type Scenario } from "../scenario.js";
import { measureStampede } from "./stampede.js";

/** Four processes read one missing key at the same instant, 250 requests each. */
export const coldKey: Scenario = {
  name: "cold-key",
  title: "cold key, 4 processes x 250 calls",
  measures: [
    { name: "loads", unit: "", better: "less", target: 1 },
    { name: "p99 / load", unit: "x", better: "less", target: 1.15 },
    { name: "p50 / load", unit: "x", better: "less" },
    { name: "Redis CPU", unit: "ms", better: "less" },
  ],
  run: (ctx) => measureStampede(ctx, { contenders: allBut(layeredLoaderMany.name), requests: 250, keys: 1 }),
};
