/** Mercurius with queries compiled by graphql-jit. The cache works the same for compiled queries. */
import type { AddressInfo } from "node:net";
import fastify from "fastify";
import { applyCached } from "graphql-cached";
import { cachedHooks } from "graphql-cached/mercurius";
import { mercurius } from "mercurius";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const app = fastify();
await app.register(mercurius, {
  schema: applyCached(shopSchema(), cache),
  context: (request) => contextOf(request.headers),
  jit: 1, // compile a query after its first execution
  allowBatchedQueries: true,
  persistedQueryProvider: mercurius.persistedQueryDefaults.automatic(),
});
cachedHooks<Context>(app, cache, { allow: isAdmin });
await app.listen({ port: PORT, host: HOST });
runUntilSignal((app.server.address() as AddressInfo).port, async () => {
  await app.close();
  await close();
});
