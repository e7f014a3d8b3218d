import type { Scenario } from "../scenario.js";
import { bigTick } from "./big-tick.js";
import { coldKey } from "./cold-key.js";
import { firstSeconds, firstSecondsWarm } from "./first-seconds.js";
import { invalidations } from "./invalidations.js";
import { nearMemory } from "./near-memory.js";
import { frozenRedis, stoppedRedis } from "./outage.js";
import { entityTags, importTime, noCachedField } from "./overhead.js";
import { page } from "./page.js";
import { responses, responsesMixed } from "./responses.js";
import { servers } from "./servers.js";
import { staleReads } from "./stale-reads.js";
import { nearKey, nearKeys, newKeys, warmKey, warmKeys } from "./warm-keys.js";

/** All scenarios, in the order in which they run. To add one, add its file and a line here. */
export const SCENARIOS: readonly Scenario[] = [
  page,
  firstSeconds,
  firstSecondsWarm,
  warmKeys,
  newKeys,
  warmKey,
  nearKeys,
  nearKey,
  servers,
  responses,
  responsesMixed,
  coldKey,
  bigTick,
  invalidations,
  staleReads,
  frozenRedis,
  stoppedRedis,
  nearMemory,
  noCachedField,
  importTime,
  entityTags,
];
