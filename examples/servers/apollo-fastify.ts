/** Apollo Server in Fastify. Look for: the same plugin as under any Apollo Server. */
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import fastifyApollo, { fastifyApolloDrainPlugin } from "@as-integrations/fastify";
import fastify from "fastify";
import { applyCached } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, responder, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const app = fastify();
const server = new ApolloServer<Context>({
  schema: applyCached(shopSchema(), cache),
  plugins: [cachedPlugin(cache, { allow: isAdmin }), fastifyApolloDrainPlugin(app)],
  allowBatchedHttpRequests: true,
  stopOnTerminationSignals: false, // this program closes the cache after the server
});
await server.start();
await app.register(fastifyApollo(server), { context: async (request) => contextOf(request.headers) });
await app.listen({ port: PORT, host: HOST });
responder((app.server.address() as AddressInfo).port, async () => {
  await server.stop();
  await close();
});
