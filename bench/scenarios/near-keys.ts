import { NEAR_CONTENDERS } from "../contenders/all.js";
import { layeredLoaderNear } from "../contenders/layered-loader.js";
import type { Scenario } from "../scenario.js";
import { keys } from "./keys.js";
import { measureSpeed, speedMeasures } from "./speed.js";

/** A hundred keys in process memory, for contenders that receive invalidations of other processes. */
export const nearKeys: Scenario = {
  name: "near-keys",
  title: "100 keys in memory, with invalidation",
  measures: speedMeasures(1, layeredLoaderNear),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: NEAR_CONTENDERS,
      requests: [keys("near", 100)],
      times: 400,
      base: layeredLoaderNear,
    }),
};
