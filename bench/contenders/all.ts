import { asyncCacheDedupe } from "./async-cache-dedupe.js";
import { baseline } from "./baseline.js";
import { bentocache } from "./bentocache.js";
import type { Contender } from "./contender.js";
import { graphqlCached, graphqlCachedNear } from "./graphql-cached.js";
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

/** Contenders that also cache in process memory and receive invalidations of other processes. Compared only with each other. */
export const NEAR_CONTENDERS: readonly Contender[] = [graphqlCachedNear, layeredLoaderNear];

export const ALL_CONTENDERS: readonly Contender[] = [...CONTENDERS, ...NEAR_CONTENDERS];
