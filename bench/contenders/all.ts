import { asyncCacheDedupe } from "./async-cache-dedupe.js";
import { bentocache } from "./bentocache.js";
import type { Contender } from "./contender.js";
import { floor } from "./floor.js";
import { graphqlCached } from "./graphql-cached.js";
import { layeredLoader, layeredLoaderMany } from "./layered-loader.js";
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
