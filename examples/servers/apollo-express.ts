/** Apollo Server with Express 5, and the inspector page. One plugin drains the HTTP server, the other drains the cache. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { ApolloServerPluginDrainHttpServer } from "@apollo/server/plugin/drainHttpServer";
import { expressMiddleware } from "@as-integrations/express5";
import { inspectorHandler } from "@graphql-cached/inspector";
import express from "express";
import { applyCached } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const app = express();
const httpServer = createServer(app);
const server = new ApolloServer<Context>({
  schema: applyCached(shopSchema(), cache),
  plugins: [cachedPlugin(cache, { allow: isAdmin }), ApolloServerPluginDrainHttpServer({ httpServer })],
  allowBatchedHttpRequests: true,
  stopOnTerminationSignals: false, // runUntilSignal stops the server first, then the cache
});
await server.start();
const context = async ({ req }: { req: express.Request }): Promise<Context> => contextOf(req.headers);
app.use(
  "/cache",
  inspectorHandler({ cache, allow: (request: express.Request) => isAdmin(contextOf(request.headers)) }),
);
app.use("/graphql", express.json(), expressMiddleware(server, { context }));
await once(httpServer.listen(PORT, HOST), "listening");
runUntilSignal((httpServer.address() as AddressInfo).port, async () => {
  await server.stop();
  await close();
});
