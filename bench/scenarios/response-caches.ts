import type { Scenario } from "../scenario.js";
import { FIELDS, NEAR_IDS } from "../servers/film-schema.js";
import type { Runtime } from "../servers/runtimes.js";
import {
  apolloResponseCache,
  apolloResponseCacheRedis,
  cachedMemory,
  cachedNear,
  mercuriusFieldCache,
  noCache,
  type Variant,
  yogaResponseCache,
} from "../servers/variants.js";
import { type Load, measureServing, servingMeasures } from "./serving.js";

const SERVERS = ["Apollo + cacheControl", "Yoga", "Mercurius"] as const;
/** No multiple of it is a multiple of the number of ids before all of them: no page is asked for twice soon. */
const OVERLAP = 37;

const LOADS: readonly Load[] = SERVERS.flatMap((runtime) => [
  {
    name: `${runtime}: same queries`,
    runtime,
    callers: 8,
    ids: NEAR_IDS,
    step: FIELDS,
    group: "loads per query, same queries",
  },
  {
    name: `${runtime}: other pages of the same objects`,
    runtime,
    callers: 8,
    ids: NEAR_IDS,
    step: OVERLAP,
    group: "loads per query, other pages",
  },
]);

const SUPPORTED = new Map<Variant, readonly Runtime[]>([
  [apolloResponseCache, ["Apollo + cacheControl"]],
  [apolloResponseCacheRedis, ["Apollo + cacheControl"]],
  [yogaResponseCache, ["Yoga"]],
  [mercuriusFieldCache, ["Mercurius"]],
]);

/**
 * Caches of whole responses, and of fields, on the servers that they are made for. The same queries again are hits for all of
 * them; other pages of the same objects are misses for a response cache. The source costs nothing, so only the time of the
 * server counts; how many loads a miss causes is another question.
 */
export const responseCaches: Scenario = {
  isLong: true,
  name: "response-caches",
  title: "100 cached fields, whole-response caches, speed vs the same server without cache",
  measures: servingMeasures(LOADS),
  charts: LOADS.slice(0, 4).map(({ name }) => ({ kind: "bars", measure: name })),
  run: (ctx) =>
    measureServing(ctx, {
      variants: [cachedNear, cachedMemory, noCache, ...SUPPORTED.keys()],
      loads: LOADS,
      base: noCache,
      supports: (variant, runtime) => SUPPORTED.get(variant)?.includes(runtime) ?? true,
    }),
};
