import { oneMget } from "../limits/tick-reader.js";
import type { Scenario } from "../scenario.js";
import { FLOORS, measureSpeed, speedCharts, speedMeasures, warmContenders } from "./speed.js";

/** A hundred cached keys, read in one tick of one request; then the next hundred. */
export const warmKeys: Scenario = {
  name: "warm-keys",
  title: "100 warm keys in one tick, fresh ids, Redis",
  measures: speedMeasures(FLOORS),
  charts: speedCharts(FLOORS),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: warmContenders(oneMget),
      comparisons: FLOORS,
      tick: { requests: 1, keys: 100, isSame: true },
      times: 20,
    }),
};
