import { asyncCacheDedupe } from "./async-cache-dedupe.js";
import { bentocache } from "./bentocache.js";
import type { Contender } from "./contender.js";
import { floor } from "./floor.js";
import { graphqlCached, graphqlCachedNear } from "./graphql-cached.js";
import { layeredLoader, layeredLoaderMany, layeredLoaderNear } from "./layered-loader.js";
import { lockRecipe } from "./lock-recipe.js";

/** Everything that can be measured, in the order of the tables. */
export const CONTENDERS: readonly Contender[] = [
  graphqlCached,
  floor,
  lockRecipe,
  bentocache,
  asyncCacheDedupe,
  layeredLoader,
  layeredLoaderMany,
];

/** Those that also keep values in the process's memory, and hear of others' invalidations. They are compared with each other only. */
export const NEAR_CONTENDERS: readonly Contender[] = [graphqlCachedNear, layeredLoaderNear];

export const ALL_CONTENDERS: readonly Contender[] = [...CONTENDERS, ...NEAR_CONTENDERS];
