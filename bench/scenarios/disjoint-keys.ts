import { baseline } from "../contenders/baseline.js";
import { hashingFloor } from "../limits/hashing-floor.js";
import { oneMget } from "../limits/tick-reader.js";
import type { Scenario } from "../scenario.js";
import { measureSpeed, speedMeasures, warmContenders } from "./speed.js";

const COMPARISONS = [
  { name: "speed vs hashing floor", base: hashingFloor },
  { name: "speed vs floor", base: baseline },
];

/** Eight requests in one tick, each for a hundred different keys. */
export const disjointKeys: Scenario = {
  name: "disjoint-keys",
  title: "8 requests in one tick, 100 keys each",
  measures: speedMeasures(COMPARISONS),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: warmContenders(oneMget),
      comparisons: COMPARISONS,
      tick: { requests: 8, keys: 100, isSame: false },
      times: 3,
    }),
};
