import type { ApolloServerPlugin } from "@apollo/server";
import responseCachePluginModule from "@apollo/server-plugin-response-cache";
import type { Redis } from "ioredis";
import { dataLoaders, type PageContender } from "./contender.js";
import { MAX_AGE_S, shopSchema } from "./shop.js";

// The plugin is published as CommonJS and as a module; TypeScript sees the former's default export.
export const responseCachePlugin = ((responseCachePluginModule as { default?: unknown }).default ??
  responseCachePluginModule) as (options?: object) => ApolloServerPlugin;

/** Apollo's response cache, which stores in Redis. */
export const responseCacheOnRedis = (client: Redis, prefix: string): ApolloServerPlugin =>
  responseCachePlugin({
    cache: {
      get: async (key: string) => (await client.get(`${prefix}:${key}`)) ?? undefined,
      set: async (key: string, value: string) => void (await client.set(`${prefix}:${key}`, value, "EX", MAX_AGE_S)),
      delete: async (key: string) => (await client.del(`${prefix}:${key}`)) > 0,
    },
  });

/** Whole responses, which nothing invalidates. */
export const responseCache: PageContender = {
  name: "Apollo's response cache",
  open: async ({ client, prefix, source }) => ({
    schema: shopSchema(),
    plugins: [responseCacheOnRedis(client, prefix)],
    loaders: () => dataLoaders(source),
  }),
};
