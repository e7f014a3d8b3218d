import { clusterReader } from "../limits/cluster-reader.js";
import { hashingFloor } from "../limits/hashing-floor.js";
import { memoryMap } from "../limits/memory-map.js";
import { oneGet } from "../limits/one-get.js";
import { sharedWait } from "../limits/shared-wait.js";
import { chunkedReader, copyingReader, oneMget, sharingReader, taggedReaders } from "../limits/tick-reader.js";
import { asyncCacheDedupe } from "./async-cache-dedupe.js";
import { baseline, clusterBaseline } from "./baseline.js";
import { bentocache } from "./bentocache.js";
import type { Contender } from "./contender.js";
import {
  graphqlCached,
  graphqlCachedNear,
  graphqlCachedReadOnly,
  graphqlCachedResultTags,
  graphqlCachedTags,
} from "./graphql-cached.js";
import { layeredLoader, layeredLoaderMany, layeredLoaderNear } from "./layered-loader.js";
import { lockRecipe } from "./lock-recipe.js";

/** The contenders of most scenarios, in the order of the tables. */
export const CONTENDERS: readonly Contender[] = [
  graphqlCached,
  baseline,
  lockRecipe,
  bentocache,
  asyncCacheDedupe,
  layeredLoader,
  layeredLoaderMany,
];

/** Contenders that also cache in process memory and receive invalidations of other processes, and the limit of that. */
export const NEAR_CONTENDERS: readonly Contender[] = [graphqlCachedNear, layeredLoaderNear, memoryMap];

export const ALL_CONTENDERS: readonly Contender[] = [
  ...CONTENDERS,
  ...NEAR_CONTENDERS,
  ...graphqlCachedTags,
  graphqlCachedResultTags,
  graphqlCachedReadOnly,
  hashingFloor,
  clusterBaseline,
  oneMget,
  oneGet,
  copyingReader,
  sharingReader,
  chunkedReader,
  ...taggedReaders,
  sharedWait,
  clusterReader,
];
