/** graphql-js on node:http, without a framework. Only `applyCached` is needed. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { graphql } from "graphql";
import { applyCached } from "graphql-cached";
import { contextOf, HOST, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

interface Body {
  readonly query: string;
  readonly variables?: Record<string, unknown>;
  readonly operationName?: string;
}

const { cache, close } = await openCache();
const schema = applyCached(shopSchema(), cache);
const server = createServer(async (request, response) => {
  try {
    const { query, variables: variableValues, operationName } = (await json(request)) as Body;
    const contextValue = contextOf(request.headers);
    const result = await graphql({ schema, source: query, variableValues, operationName, contextValue });
    response.setHeader("content-type", "application/json").end(JSON.stringify(result));
  } catch {
    response.writeHead(400).end();
  }
});
await once(server.listen(PORT, HOST), "listening");
runUntilSignal((server.address() as AddressInfo).port, async () => {
  await once(server.close(), "close");
  await close();
});
