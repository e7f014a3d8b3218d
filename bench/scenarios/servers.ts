import type { Measure, Row, Scenario } from "../scenario.js";
import { FIELDS, IDS } from "../servers/films.js";
import type { VariantName } from "../servers/variants.js";
import { measureServers, OVERLAP, REQUESTS, type ServerLoad, speedOf } from "./server-rounds.js";

const BOTH = [
  "no cache",
  "by hand",
  "graphql-cached",
  "graphql-cached, no memory",
  "graphql-cached, up to 2 s stale",
] as const;
const VARIANTS_OF: Readonly<Record<"Apollo" | "Yoga", readonly VariantName[]>> = {
  Apollo: [...BOTH, "Apollo's response cache, memory", "Apollo's response cache, Redis"],
  Yoga: [...BOTH, "envelop's response cache, memory"],
};
const CALLERS = 8;
const SAME = { server: "Apollo", name: "Apollo: same queries", step: FIELDS, callers: CALLERS } as const;
const LOADS: readonly ServerLoad[] = [
  SAME,
  { server: "Apollo", name: "Apollo: other pages of the same objects", step: OVERLAP, callers: CALLERS },
  { server: "Yoga", name: "Yoga: same queries", step: FIELDS, callers: CALLERS },
  { server: "Yoga", name: "Yoga: other pages of the same objects", step: OVERLAP, callers: CALLERS },
];
const OF_BY_HAND = "Apollo: same queries, of by hand";
const LOADS_A_QUERY = "loads a query, other pages";

const STARTS = 3;
const WARM_UP_REQUESTS = 400;

/**
 * Pages of a hundred objects with one cached field each. The same queries again are hits for caches of fields and of responses;
 * other pages of the same objects are misses for a cache of responses. The source costs nothing, so only the time of the server
 * counts.
 */
export const servers: Scenario = {
  name: "servers",
  title: `${FIELDS} cached fields on a server, ${CALLERS} callers, source without delay`,
  measures: [
    ...LOADS.map(
      ({ name }): Measure => ({
        name: `${name}, of no cache`,
        unit: "x",
        better: "more",
        targets: name === SAME.name ? [{ contender: "graphql-cached, up to 2 s stale", bound: 1 }] : [],
      }),
    ),
    { name: OF_BY_HAND, unit: "x", better: "more", targets: [{ contender: "graphql-cached, no memory", bound: 0.75 }] },
    { name: LOADS_A_QUERY, unit: "", better: "less" },
  ],
  run: (ctx): Promise<readonly Row[]> =>
    measureServers(ctx, {
      loads: LOADS,
      variantsOf: VARIANTS_OF,
      starts: ctx.count(1, STARTS),
      // Every object is stored.
      warmUpRequests: Math.max(IDS / FIELDS, WARM_UP_REQUESTS),
      relate: (load, name, served) => ({
        [`${load.name}, of no cache`]: speedOf(served, name, "no cache"),
        ...(load === SAME ? { [OF_BY_HAND]: speedOf(served, name, "by hand") } : {}),
        ...(load.step === OVERLAP ? { [LOADS_A_QUERY]: (served.get(name)?.loads ?? Number.NaN) / REQUESTS } : {}),
      }),
    }),
};
