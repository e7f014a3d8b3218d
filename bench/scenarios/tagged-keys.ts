import { graphqlCached, graphqlCachedTags } from "../contenders/graphql-cached.js";
import { oneMget, taggedReaders } from "../limits/tick-reader.js";
import type { Scenario } from "../scenario.js";
import { type Comparison, measureSpeed, speedMeasures } from "./speed.js";

const [oneTag, , , tenTags] = graphqlCachedTags;
const [bareOneTag, , , bareTenTags] = taggedReaders;
const COMPARISONS: readonly Comparison[] = [
  { name: "1 tag vs untagged", base: graphqlCached, only: [oneTag], target: { bound: 0.9 } },
  { name: "10 tags vs untagged", base: graphqlCached, only: [tenTags], target: { bound: 0.75 } },
];
/** What tags cost the bare reader, under the same names of measures. */
const LIMITS: readonly Comparison[] = [
  { name: "1 tag vs untagged", base: oneMget, only: [bareOneTag] },
  { name: "10 tags vs untagged", base: oneMget, only: [bareTenTags] },
];

/** A hundred warm keys in one tick, with tags that many keys share. */
export const taggedKeys: Scenario = {
  name: "tagged-keys",
  title: "100 warm keys with 1 / 10 tags each, Redis",
  measures: speedMeasures(COMPARISONS),
  run: (ctx) =>
    measureSpeed(ctx, {
      contenders: [graphqlCached, oneTag, tenTags, oneMget, bareOneTag, bareTenTags].filter((one) => one !== undefined),
      comparisons: [...COMPARISONS, ...LIMITS],
      tick: { requests: 1, keys: 100, isSame: true },
      times: 20,
      starts: 4,
    }),
};
