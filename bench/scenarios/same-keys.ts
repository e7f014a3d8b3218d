import { CONTENDERS } from "../contenders/all.js";
import { baseline } from "../contenders/baseline.js";
import { graphqlCached, graphqlCachedReadOnly } from "../contenders/graphql-cached.js";
import { hashingFloor } from "../limits/hashing-floor.js";
import { copyingReader, sharingReader } from "../limits/tick-reader.js";
import type { Scenario } from "../scenario.js";
import { type Comparison, measureSpeed, speedCharts, speedMeasures, warmContenders } from "./speed.js";

const peers = CONTENDERS.filter(({ kind }) => kind === "peer" || kind === "recipe");
const COMPARISONS: readonly Comparison[] = [
  {
    name: "own objects, speed vs floor",
    base: baseline,
    only: [graphqlCached, copyingReader, baseline, hashingFloor],
    target: { bound: 2 },
  },
  {
    name: "shared objects, speed vs floor",
    base: baseline,
    only: [graphqlCachedReadOnly, sharingReader, ...peers],
    target: { bound: "best peer" },
  },
];

/** Eight requests in one tick, all for the same hundred keys. Peers return the same object to all of them. */
export const sameKeys: Scenario = {
  name: "same-keys",
  title: "8 requests in one tick, same 100 keys, Redis",
  measures: speedMeasures(COMPARISONS),
  charts: [...speedCharts(COMPARISONS), { kind: "bars", measure: "shared objects, speed vs floor" }],
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: warmContenders(graphqlCachedReadOnly, copyingReader, sharingReader),
      comparisons: COMPARISONS,
      tick: { requests: 8, keys: 100, isSame: true },
      times: 4,
    }),
};
