import type { Scenario } from "../scenario.js";
import { bigTick } from "./big-tick.js";
import { coldKey } from "./cold-key.js";
import { firstRequests } from "./first-requests.js";
import { invalidations } from "./invalidations.js";
import { memorySize } from "./memory-size.js";
import { newPages } from "./new-pages.js";
import { frozenRedis, stoppedRedis } from "./outage.js";
import { entityTags, importTime, noCachedField } from "./overhead.js";
import { page } from "./page.js";
import { responses, responsesEtag, responsesMixed } from "./responses.js";
import { servers } from "./servers.js";
import { staleReads } from "./stale-reads.js";
import { valueSizes } from "./value-sizes.js";
import { memoryKey, memoryKeys, newKeys, warmKey, warmKeys } from "./warm-keys.js";

/** All scenarios, in the order in which they run. To add one, add its file and a line here. */
export const SCENARIOS: readonly Scenario[] = [
  page,
  firstRequests,
  newPages,
  warmKeys,
  newKeys,
  warmKey,
  memoryKeys,
  memoryKey,
  valueSizes,
  servers,
  responses,
  responsesEtag,
  responsesMixed,
  coldKey,
  bigTick,
  invalidations,
  staleReads,
  frozenRedis,
  stoppedRedis,
  memorySize,
  noCachedField,
  importTime,
  entityTags,
];
