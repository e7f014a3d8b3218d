import type { Scenario } from "../scenario.js";
import { REDIS_IDS } from "../servers/film-schema.js";
import { bareRedisField, cachedRedis, handRedis, handRedisHashed, layeredRedis, noCache } from "../servers/variants.js";
import { measureServing, serverLoads, servingMeasures } from "./serving.js";

const LOADS = serverLoads(REDIS_IDS);

/** Queries of a hundred cached fields whose values are in Redis, compared with DataLoader and MGET by hand. */
export const serverRedis: Scenario = {
  name: "server-redis",
  title: "100 cached fields, Redis, speed vs DataLoader + MGET by hand",
  measures: servingMeasures(LOADS, { bound: 0.95, of: "DataLoader + MGET by hand" }),
  charts: [
    { kind: "bars", measure: "Apollo, 8 callers" },
    { kind: "bars", measure: "Apollo + cacheControl, 8 callers" },
  ],
  run: (ctx) =>
    measureServing(ctx, {
      variants: [cachedRedis, handRedis, handRedisHashed, bareRedisField, layeredRedis, noCache],
      loads: LOADS,
      base: handRedis,
    }),
};
