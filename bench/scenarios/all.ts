import type { Scenario } from "../scenario.js";
import { bigTick } from "./big-tick.js";
import { cluster } from "./cluster.js";
import { coldKey } from "./cold-key.js";
import { coldKeys } from "./cold-keys.js";
import { crowd } from "./crowd.js";
import { disjointKeys } from "./disjoint-keys.js";
import { failingLoad } from "./failing-load.js";
import { footprint } from "./footprint.js";
import { growthDelay, growthIds, growthKeys, growthProcesses, growthTags, growthValues } from "./growth.js";
import { hotKey } from "./hot-key.js";
import { memory } from "./memory.js";
import { nearKeys } from "./near-keys.js";
import { openLoop } from "./open-loop.js";
import { frozenRedis, stoppedRedis } from "./outage.js";
import { responseCaches } from "./response-caches.js";
import { roundTrips } from "./round-trips.js";
import { sameKeys } from "./same-keys.js";
import { entityEntry, githubSchema, noCachedField } from "./server.js";
import { serverNear } from "./server-near.js";
import { serverRedis } from "./server-redis.js";
import { staleReads } from "./stale-reads.js";
import { taggedKeys } from "./tagged-keys.js";
import { warmKey } from "./warm-key.js";
import { warmKeys } from "./warm-keys.js";

/** All scenarios, in the order in which they run. To add one, add its file and a line here. */
export const SCENARIOS: readonly Scenario[] = [
  warmKey,
  warmKeys,
  taggedKeys,
  sameKeys,
  disjointKeys,
  nearKeys,
  cluster,
  serverNear,
  serverRedis,
  responseCaches,
  openLoop,
  coldKey,
  coldKeys,
  footprint,
  hotKey,
  failingLoad,
  frozenRedis,
  stoppedRedis,
  bigTick,
  crowd,
  growthKeys,
  growthValues,
  growthProcesses,
  growthTags,
  growthIds,
  growthDelay,
  roundTrips,
  entityEntry,
  staleReads,
  memory,
  githubSchema,
  noCachedField,
];
