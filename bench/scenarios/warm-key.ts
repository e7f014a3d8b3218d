import { layeredLoaderMany } from "../contenders/layered-loader.js";
import { lockRecipe } from "../contenders/lock-recipe.js";
import { oneGet } from "../limits/one-get.js";
import { oneMget } from "../limits/tick-reader.js";
import type { Scenario } from "../scenario.js";
import { FLOORS, measureSpeed, speedCharts, speedMeasures, warmContenders } from "./speed.js";

/** One cached key per request, one request after the other, each for another id. */
export const warmKey: Scenario = {
  name: "warm-key",
  title: "one warm key, fresh ids, Redis",
  measures: speedMeasures(FLOORS),
  charts: speedCharts(FLOORS),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: warmContenders(lockRecipe, oneMget, oneGet).filter(({ name }) => name !== layeredLoaderMany.name),
      comparisons: FLOORS,
      tick: { requests: 1, keys: 1, isSame: true },
      times: 120,
      starts: 4,
    }),
};
