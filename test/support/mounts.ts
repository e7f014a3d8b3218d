import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { InspectorHandler } from "@graphql-cached/inspector";
import fastify from "fastify";
import { createSchema, createYoga } from "graphql-yoga";
import { afterCaches } from "./world.js";

/** Each returns the URL of the handler, which is mounted as packages/inspector/README.md says. */
export const MOUNTS: Readonly<Record<string, (handler: InspectorHandler) => Promise<string>>> = {
  "node:http": (handler) => listen(createServer(handler)),
  "a middleware that has parsed the body": (handler) =>
    listen(
      createServer(async (request, response) => {
        const body = request.method === "POST" ? (JSON.parse(await text(request)) as unknown) : undefined;
        await handler(Object.assign(request, { body }), response);
      }),
    ),
  Fastify: async (handler) => {
    const app = fastify();
    app.all("/cache", handler);
    afterCaches(() => app.close());
    return `${await app.listen({ port: 0, host: "127.0.0.1" })}/cache`;
  },
  Yoga: async (handler) => {
    const yoga = createYoga({
      schema: createSchema({ typeDefs: "type Query { other: Int }" }),
      plugins: [
        {
          onRequest: async ({ request, url, endResponse }) =>
            url.pathname === "/cache" ? endResponse(await handler(request)) : undefined,
        },
      ],
    });
    return `${await listen(createServer((request, response) => void yoga(request, response)))}cache`;
  },
};

/** Returns the URL of a server that listens on loopback until the test ends. */
export async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterCaches(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/`;
}
