/** graphql-http, the reference server of GraphQL over HTTP. Look for: `applyCached` is all there is to do. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { applyCached } from "graphql-cached";
import { createHandler } from "graphql-http/lib/use/http";
import { contextOf, HOST, openCache, PORT, responder, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const schema = applyCached(shopSchema(), cache);
const server = createServer(createHandler({ schema, context: ({ raw }) => ({ ...contextOf(raw.headers) }) }));
await once(server.listen(PORT, HOST), "listening");
responder((server.address() as AddressInfo).port, async () => {
  server.close();
  await close();
});
