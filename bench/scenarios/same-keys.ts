import { allBut, type Scenario } from "../scenario.js";
import { keys } from "./keys.js";
import { measureSpeed, speedMeasures } from "./speed.js";

/** Eight requests in one tick, all for the same hundred keys. */
export const sameKeys: Scenario = {
  name: "same-keys",
  title: "8 concurrent requests, same 100 keys",
  measures: speedMeasures(4),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: allBut(),
      requests: Array.from({ length: 8 }, () => keys("warm", 100)),
      times: 12,
    }),
};
