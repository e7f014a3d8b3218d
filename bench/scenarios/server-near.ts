import type { Scenario } from "../scenario.js";
import { NEAR_IDS } from "../servers/film-schema.js";
import { bareField, cachedMemory, cachedNear, layeredNear, noCache, noCacheAgain } from "../servers/variants.js";
import { measureServing, serverLoads, servingMeasures } from "./serving.js";

const LOADS = serverLoads(NEAR_IDS);

/** Queries of a hundred cached fields whose values are in the process, compared with a server whose source costs nothing. */
export const serverNear: Scenario = {
  name: "server-near",
  title: "100 cached fields, near cache, speed vs no cache",
  measures: servingMeasures(LOADS, { bound: 0.98, of: "the server without cache" }),
  charts: [
    { kind: "bars", measure: "Apollo, 8 callers" },
    { kind: "bars", measure: "Apollo + cacheControl, 8 callers" },
  ],
  run: (ctx) =>
    measureServing(ctx, {
      variants: [cachedNear, cachedMemory, noCache, noCacheAgain, layeredNear, bareField],
      loads: LOADS,
      base: noCache,
    }),
};
