import { NEAR_CONTENDERS } from "../contenders/all.js";
import { layeredLoaderNear } from "../contenders/layered-loader.js";
import type { Scenario } from "../scenario.js";
import { type Comparison, measureSpeed, speedCharts, speedMeasures } from "./speed.js";

const COMPARISONS: readonly Comparison[] = [
  { name: "speed vs layered-loader, in memory", base: layeredLoaderNear, target: { bound: 1 } },
];
/** As many ids as the near caches of all contenders hold. */
const IDS = 8_000;

/** Keys in process memory, for contenders that receive invalidations of other processes. */
export const nearKeys: Scenario = {
  name: "near-keys",
  title: "near-cache hit through a loader, 100 keys in one tick",
  measures: speedMeasures(COMPARISONS),
  charts: speedCharts(COMPARISONS),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: NEAR_CONTENDERS,
      comparisons: COMPARISONS,
      tick: { requests: 1, keys: 100, isSame: true },
      times: 600,
      ids: IDS,
    }),
};
