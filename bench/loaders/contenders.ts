/**
 * The modules in this folder that export the contenders, by their names. A measured process imports the module of its own
 * contender only.
 */
export const MODULES = {
  "by hand": "by-hand",
  "graphql-cached": "graphql-cached",
  "graphql-cached, a tag each": "graphql-cached",
  "graphql-cached, SQLite": "graphql-cached",
  "graphql-cached, node-redis": "graphql-cached",
  "graphql-cached, near cache": "graphql-cached",
  "graphql-cached, near cache, a tag each": "graphql-cached",
  "graphql-cached, near cache of 32 MB": "graphql-cached",
  "lock recipe": "lock-recipe",
  bentocache: "bentocache",
  "async-cache-dedupe": "async-cache-dedupe",
  "layered-loader": "layered-loader",
  "layered-loader getMany": "layered-loader",
  "layered-loader, in memory": "layered-loader",
} as const;

export type ContenderName = keyof typeof MODULES;
