/**
 * The modules in this folder that export the contenders, by their names. A measured process imports the module of its own
 * contender only.
 */
export const MODULES = {
  "by hand": "by-hand",
  "graphql-cached": "graphql-cached",
  "graphql-cached, a tag each": "graphql-cached",
  "graphql-cached, no memory": "graphql-cached",
  "graphql-cached, no memory, a tag each": "graphql-cached",
  "graphql-cached, up to 2 s stale": "graphql-cached",
  "graphql-cached, up to 2 s stale, a tag each": "graphql-cached",
  "graphql-cached, memory of 32 MiB": "graphql-cached",
  "graphql-cached, SQLite, no memory": "graphql-cached",
  "graphql-cached, node-redis, no memory": "graphql-cached",
  "lock recipe": "lock-recipe",
  bentocache: "bentocache",
  "async-cache-dedupe": "async-cache-dedupe",
  "layered-loader": "layered-loader",
  "layered-loader getMany": "layered-loader",
  "layered-loader, in memory": "layered-loader",
} as const;

export type ContenderName = keyof typeof MODULES;
