/** Apollo Server with Fastify, and the inspector page. The cache plugin is the same as for any Apollo Server. */
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import fastifyApollo, { fastifyApolloDrainPlugin } from "@as-integrations/fastify";
import { inspectorHandler } from "@graphql-cached/inspector";
import fastify, { type FastifyRequest } from "fastify";
import { applyCached } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const app = fastify();
const server = new ApolloServer<Context>({
  schema: applyCached(shopSchema(), cache),
  plugins: [cachedPlugin(cache, { allow: isAdmin }), fastifyApolloDrainPlugin(app)],
  allowBatchedHttpRequests: true,
  stopOnTerminationSignals: false, // runUntilSignal stops the server first, then the cache
});
await server.start();
await app.register(fastifyApollo(server), { context: async (request) => contextOf(request.headers) });
app.all("/cache", inspectorHandler({ cache, allow: (request: FastifyRequest) => isAdmin(contextOf(request.headers)) }));
await app.listen({ port: PORT, host: HOST });
runUntilSignal((app.server.address() as AddressInfo).port, async () => {
  await server.stop();
  await close();
});
