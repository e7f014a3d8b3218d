/** graphql-http, the reference server of GraphQL over HTTP. Only `applyCached` is needed. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { applyCached } from "graphql-cached";
import { createHandler } from "graphql-http/lib/use/http";
import { contextOf, HOST, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const schema = applyCached(shopSchema(), cache);
const server = createServer(createHandler({ schema, context: ({ raw }) => ({ ...contextOf(raw.headers) }) }));
await once(server.listen(PORT, HOST), "listening");
runUntilSignal((server.address() as AddressInfo).port, async () => {
  await once(server.close(), "close");
  await close();
});
