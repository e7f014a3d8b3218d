import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { allBut, type Scenario } from "../scenario.js";
import { measureSpeed, speedMeasures } from "./speed.js";

/** One cached key, read by sequential requests. */
export const warmKey: Scenario = {
  name: "warm-key",
  title: "one warm key",
  measures: speedMeasures(0.95),
  run: (ctx) => measureSpeed(ctx, { contenders: allBut(layeredLoaderMany.name), requests: [["warm"]], times: 400 }),
};
