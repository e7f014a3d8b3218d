import { allBut, type Scenario } from "../scenario.js";
import { keys } from "./keys.js";
import { measureSpeed, speedMeasures } from "./speed.js";

/** A hundred cached keys, read in one tick of one request. */
export const warmKeys: Scenario = {
  name: "warm-keys",
  title: "100 warm keys in one tick",
  measures: speedMeasures(0.95),
  run: (ctx) => measureSpeed(ctx, { contenders: allBut(), requests: [keys("warm", 100)], times: 60 }),
};
