import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { inspectorHandler } from "@graphql-cached/inspector";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { Redis } from "ioredis";
import { redisStore } from "../../src/stores/redis/index.js";
import type { Address } from "./server-lab.js";
import { afterCaches } from "./world.js";

const typeDefs = /* GraphQL */ `
  type Query {
    movie(id: ID!): String @cached(maxAge: 600, staleWhileRevalidate: 600, tags: ["Movie:{$args.id}"])
    top(genre: String!): String @cached(maxAge: 600)
    rare: String @cached(maxAge: 600)
    one: String @cached(maxAge: 600)
    basket: String @cached(maxAge: 600, scope: PRIVATE)
    large: String @cached(maxAge: 600)
    prices: String @cached(maxAge: 600)
  }
  type Mutation {
    rename(id: ID!): Boolean @invalidates(tags: ["Movie:{$args.id}"])
  }
`;

/** It cannot be stored. */
const LARGE = "x".repeat(4_096);

/** A server of the Fetch API, of node:http or of a page: its URL, until the test ends. */
export async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterCaches(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}

/** A server with a few cached fields, and the inspector page beside it. */
export async function inspectedServer(redis: Address, prefix: string) {
  const client = new Redis({ ...redis, maxRetriesPerRequest: 0, enableOfflineQueue: false, lazyConnect: true });
  client.on("error", () => undefined);
  await client.connect();
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: redisStore({ client }),
    prefix,
    logger: { info: () => undefined, warn: () => undefined },
    defaults: { jitter: 0, earlyRefresh: 0 },
    identify: () => undefined,
    storage: { maxValueBytes: LARGE.length - 1 },
  });
  afterCaches(async () => {
    await cache.close();
    client.disconnect();
  });
  const load = (): string => "a value";
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, typeDefs],
      resolvers: {
        Query: { movie: load, top: load, rare: load, one: load, basket: load, large: () => LARGE, prices: load },
        Mutation: { rename: () => true },
      },
    }),
    cache,
  );
  const ask = async (source: string): Promise<void> => {
    const { errors } = await graphql({ schema, source, contextValue: {} });
    if (errors?.[0] !== undefined) throw errors[0];
    await cache.settled();
    await settle();
  };
  const url = await serve(inspectorHandler({ cache, allow: () => true }));
  return { cache, ask, url };
}
