import { byHand, byHandAsFound } from "./by-hand.js";
import { dataLoaderOnly, executionOnly, type PageContender } from "./contender.js";
import {
  cached,
  cachedNoMemory,
  cachedTwoSeconds,
  cachedUntagged,
  responses,
  responsesNoMemory,
} from "./graphql-cached.js";
import { responseCache } from "./response-cache.js";

/** In the order of the tables. */
export const PAGE_CONTENDERS: readonly PageContender[] = [
  byHand,
  byHandAsFound,
  cached,
  cachedNoMemory,
  cachedTwoSeconds,
  cachedUntagged,
  dataLoaderOnly,
  responseCache,
  executionOnly,
];
/** Those that keep whole responses are measured beside each other: see `scenarios/responses.ts`. */
export const RESPONSE_CONTENDERS: readonly PageContender[] = [
  cached,
  cachedNoMemory,
  responses,
  responsesNoMemory,
  responseCache,
  dataLoaderOnly,
];
