/** Apollo Server by itself. Look for: the second answer loads nothing, nor does the first one of another process on the same Redis. */
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { applyCached } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, responder, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const server = new ApolloServer<Context>({
  schema: applyCached(shopSchema(), cache),
  plugins: [cachedPlugin(cache, { allow: isAdmin })],
  allowBatchedHttpRequests: true,
  stopOnTerminationSignals: false, // this program closes the cache after the server
});
const { url } = await startStandaloneServer(server, {
  listen: { port: PORT, host: HOST },
  context: async ({ req }) => contextOf(req.headers),
});
responder(Number(new URL(url).port), async () => {
  await server.stop();
  await close();
});
