import { allBut, type Scenario } from "../scenario.js";
import { keys } from "./keys.js";
import { measureSpeed, speedMeasures } from "./speed.js";

/** Eight requests in one tick, each for a hundred different keys. */
export const disjointKeys: Scenario = {
  name: "disjoint-keys",
  title: "8 concurrent requests, 100 keys each",
  measures: speedMeasures(),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: allBut(),
      requests: Array.from({ length: 8 }, (_, nth) => keys(`warm-${nth}`, 100)),
      times: 8,
    }),
};
