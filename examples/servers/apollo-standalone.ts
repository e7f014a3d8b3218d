/** Apollo Server, standalone. The second request loads nothing, nor does the first one of another process on the same Redis. */
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { applyCached } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const server = new ApolloServer<Context>({
  schema: applyCached(shopSchema(), cache),
  plugins: [cachedPlugin(cache, { allow: isAdmin })],
  allowBatchedHttpRequests: true,
  stopOnTerminationSignals: false, // runUntilSignal stops the server first, then the cache
});
const { url } = await startStandaloneServer(server, {
  listen: { port: PORT, host: HOST },
  context: async ({ req }) => contextOf(req.headers),
});
runUntilSignal(Number(new URL(url).port), async () => {
  await server.stop();
  await close();
});
