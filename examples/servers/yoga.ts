/** GraphQL Yoga, and the inspector page. The schema does the caching; `useCached` adds the trace in `extensions.cached`. */
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { inspectorHandler } from "@graphql-cached/inspector";
import { useAPQ } from "@graphql-yoga/plugin-apq";
import { applyCached } from "graphql-cached";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { type Context, contextOf, HOST, isAdmin, openCache, PORT, runUntilSignal, shopSchema } from "./shop.js";

const { cache, close } = await openCache();
const inspector = inspectorHandler({
  cache,
  allow: ({ headers }: Request) => isAdmin(contextOf(Object.fromEntries(headers))),
});
const yoga = createYoga<object, Context>({
  schema: applyCached(shopSchema(), cache),
  context: ({ request }) => contextOf(Object.fromEntries(request.headers)),
  plugins: [
    useCached(cache, { allow: isAdmin }),
    useAPQ(),
    {
      onRequest: async ({ request, url, endResponse }) =>
        void (url.pathname === "/cache" && endResponse(await inspector(request))),
    },
  ],
  batching: true,
});
const server = createServer((request, response) => void yoga(request, response));
await once(server.listen(PORT, HOST), "listening");
runUntilSignal((server.address() as AddressInfo).port, async () => {
  await once(server.close(), "close");
  await yoga.dispose();
  await close();
});
