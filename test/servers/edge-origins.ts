import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer, type ApolloServerPlugin } from "@apollo/server";
import { ApolloServerPluginLandingPageDisabled } from "@apollo/server/plugin/disabled";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { onTestFinished } from "vitest";
import { HINTS } from "../responses/site.js";

/** Who sets a cookie: a layer of the server that comes after the cache, or one that has the response of Node.js. */
export type CookieSetter = "later plugin" | "response of Node.js";

interface Started {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
  readonly options: OriginOptions;
}

interface OriginOptions {
  readonly cookie?: CookieSetter;
  /** Of Apollo Server. */
  readonly hasLandingPage?: boolean;
}

interface Context {
  readonly user: string | undefined;
  /** Sets a header of the response of Node.js. */
  setCookie?(): void;
}

const COOKIE = ["set-cookie", "session=1"] as const;
const typeDefs = /* GraphQL */ `
  type Query {
    movie: String @cached(maxAge: 60, tags: ["movie"]) @cacheControl(maxAge: 60)
    caller: String @cacheControl(maxAge: 60)
    broken: String @cacheControl(maxAge: 60)
  }
`;
const resolvers = {
  Query: {
    movie: () => "Metropolis",
    caller: (_: unknown, __: unknown, context: Context) => {
      context.setCookie?.();
      return context.user ?? "guest";
    },
    broken: () => {
      throw new Error("broken");
    },
  },
};
/** Fails for "nobody". */
function userOf(authorization: string | null | undefined): string | undefined {
  if (authorization === "nobody") throw new Error("unknown user");
  return authorization ?? undefined;
}

/** The next turn of the event loop, in which hooks that come earlier are over. */
const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

const origins = {
  "Apollo Server": async ({ cache, schema, options: { cookie, hasLandingPage } }: Started): Promise<string> => {
    const setting: ApolloServerPlugin<Context> = {
      requestDidStart: async () => ({
        async willSendResponse({ response }) {
          await later();
          response.http.headers.set(...COOKIE);
        },
      }),
    };
    const server = new ApolloServer<Context>({
      schema,
      plugins: [
        cachedPlugin(cache, { edge: true }),
        ...(hasLandingPage === true ? [] : [ApolloServerPluginLandingPageDisabled()]),
        ...(cookie === "later plugin" ? [setting] : []),
      ],
      logger: { debug: later, info: later, warn: later, error: later },
    });
    onTestFinished(() => server.stop());
    const { url } = await startStandaloneServer(server, {
      listen: { port: 0, host: "127.0.0.1" },
      context: async ({ req, res }) => {
        const user = userOf(req.headers.authorization);
        return cookie === "response of Node.js" ? { user, res, setCookie: () => res.setHeader(...COOKIE) } : { user };
      },
    });
    return new URL(url).origin;
  },
  "GraphQL Yoga": async ({ cache, schema, options: { cookie } }: Started): Promise<string> => {
    const setting = {
      onResponse: async ({ response }: { response: Response }) => {
        await later();
        response.headers.append(...COOKIE);
      },
    };
    const yoga = createYoga<{ res: { setHeader(...header: typeof COOKIE): void } }, Context>({
      schema,
      logging: false,
      context: (({ request, res }: { request: Request; res: { setHeader(...header: typeof COOKIE): void } }) => ({
        user: userOf(request.headers.get("authorization")),
        ...(cookie === "response of Node.js" ? { setCookie: () => res.setHeader(...COOKIE) } : {}),
      })) as never,
      plugins: [useCached(cache, { edge: true }), ...(cookie === "later plugin" ? [setting] : [])],
    });
    const server = createServer(yoga as never);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void (server.close(), server.closeAllConnections()));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
  },
  Mercurius: async ({ cache, schema, options: { cookie } }: Started): Promise<string> => {
    const app = fastify({ forceCloseConnections: true });
    onTestFinished(() => app.close());
    await app.register(mercurius, {
      schema,
      // As docs/edge.md says.
      additionalRouteOptions: {
        onSend: async (_, reply) =>
          void (reply.hasHeader("cache-control") || reply.header("cache-control", "no-store")),
      },
      context: ((
        { headers }: { headers: Record<string, string | undefined> },
        { raw }: { raw: { setHeader(...header: typeof COOKIE): void } },
      ) => ({
        user: userOf(headers.authorization),
        ...(cookie === "response of Node.js" ? { setCookie: () => raw.setHeader(...COOKIE) } : {}),
      })) as never,
    });
    cachedHooks<Context>(app, cache, { edge: true });
    if (cookie === "later plugin") app.addHook("onSend", async (_, reply) => void reply.header(...COOKIE));
    return `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  },
};
export type OriginName = keyof typeof origins;
export const ORIGINS = Object.keys(origins) as OriginName[];

/** Starts a server for a CDN, and returns what makes the URL of a query. `nth`: another URL for the same. */
export async function startOrigin(name: OriginName, options: OriginOptions = {}) {
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    privacy: { sharedContextKeys: ["setCookie", "res"] },
    identify: ({ user }) => user,
    onEvent: () => undefined,
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, typeDefs], resolvers: resolvers as never }),
    cache,
  );
  const url = await origins[name]({ cache, schema, options });
  return {
    url,
    urlOf: (query: string, nth = 0): string =>
      `${url}?${new URLSearchParams({ query: query.replace("{", `query Q${nth} {`) }).toString()}`,
  };
}
