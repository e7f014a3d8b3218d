import type { Scenario } from "../scenario.js";
import { coldKey } from "./cold-key.js";
import { coldKeys } from "./cold-keys.js";
import { disjointKeys } from "./disjoint-keys.js";
import { failingLoad } from "./failing-load.js";
import { footprint } from "./footprint.js";
import { hotKey } from "./hot-key.js";
import { memory } from "./memory.js";
import { nearKeys } from "./near-keys.js";
import { frozenRedis, stoppedRedis } from "./outage.js";
import { roundTrips } from "./round-trips.js";
import { sameKeys } from "./same-keys.js";
import { githubSchema, noCachedField } from "./server.js";
import { staleReads } from "./stale-reads.js";
import { warmKey } from "./warm-key.js";
import { warmKeys } from "./warm-keys.js";

/** All scenarios, in the order in which they run. To add one, add its file and a line here. */
export const SCENARIOS: readonly Scenario[] = [
  warmKey,
  warmKeys,
  sameKeys,
  disjointKeys,
  nearKeys,
  coldKey,
  coldKeys,
  hotKey,
  failingLoad,
  frozenRedis,
  stoppedRedis,
  roundTrips,
  staleReads,
  footprint,
  memory,
  githubSchema,
  noCachedField,
];
