import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer, type ApolloServerPlugin } from "@apollo/server";
import { ApolloServerPluginLandingPageDisabled } from "@apollo/server/plugin/disabled";
import { ApolloServerPluginDrainHttpServer } from "@apollo/server/plugin/drainHttpServer";
import { startStandaloneServer } from "@apollo/server/standalone";
import { expressMiddleware } from "@as-integrations/express5";
import fastifyApollo, { fastifyApolloDrainPlugin } from "@as-integrations/fastify";
import { makeExecutableSchema } from "@graphql-tools/schema";
import express from "express";
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

/** Who sets a cookie. A session does so when the headers are written. */
export type CookieSetter = "later plugin" | "earlier middleware" | "resolver" | "session" | "later hook";

interface Started {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
  readonly options: OriginOptions;
}

interface OriginOptions {
  readonly cookie?: CookieSetter;
  /** Whether Apollo Server or Yoga keeps whole responses. */
  readonly responses?: boolean;
  /** Of Apollo Server. */
  readonly hasLandingPage?: boolean;
  /** Keeps the response of Express or Fastify out of the context of Apollo Server. */
  readonly hidesResponse?: boolean;
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

type Raw = Pick<ServerResponse, "setHeader" | "writeHead">;

/** What layers around GraphQL do with the response before it is executed. Returns what its context has for them. */
function useResponse(res: Raw, cookie: CookieSetter | undefined): Pick<Context, "setCookie"> {
  if (cookie === "earlier middleware") res.setHeader(...COOKIE);
  if (cookie === "session") {
    const { writeHead } = res;
    res.writeHead = ((...given: Parameters<typeof writeHead>) => {
      res.setHeader(...COOKIE);
      return writeHead.apply(res, given);
    }) as typeof writeHead;
  }
  return cookie === "resolver" ? { setCookie: () => void res.setHeader(...COOKIE) } : {};
}

function apolloServer(
  { cache, schema, options: { cookie, responses, hasLandingPage } }: Started,
  ...plugins: ApolloServerPlugin<Context>[]
): ApolloServer<Context> {
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
      cachedPlugin(cache, { edge: true, responses }),
      ...(hasLandingPage === true ? [] : [ApolloServerPluginLandingPageDisabled()]),
      ...(cookie === "later plugin" ? [setting] : []),
      ...plugins,
    ],
    logger: { debug: later, info: later, warn: later, error: later },
  });
  onTestFinished(() => server.stop());
  return server;
}

const origins = {
  "Apollo Server": async (started: Started): Promise<string> => {
    const { cookie } = started.options;
    const { url } = await startStandaloneServer(apolloServer(started), {
      listen: { port: 0, host: "127.0.0.1" },
      context: async ({ req, res }) => ({
        ...useResponse(res, cookie),
        user: userOf(req.headers.authorization),
        ...(cookie === undefined ? {} : { res }),
      }),
    });
    return new URL(url).origin;
  },
  "Apollo Server on Express": async (started: Started): Promise<string> => {
    const { cookie, hidesResponse } = started.options;
    const app = express();
    const httpServer = createServer(app);
    const server = apolloServer(started, ApolloServerPluginDrainHttpServer({ httpServer }));
    await server.start();
    app.use((_, res, next) => {
      Object.assign(res.locals, useResponse(res, cookie));
      next();
    });
    const context = async ({ req, res }: { req: express.Request; res: express.Response }) => ({
      user: userOf(req.headers.authorization),
      ...res.locals,
      ...(hidesResponse === true ? {} : { res }),
    });
    app.use("/graphql", express.json(), expressMiddleware(server, { context }));
    await once(httpServer.listen(0, "127.0.0.1"), "listening");
    return `http://127.0.0.1:${(httpServer.address() as AddressInfo).port}/graphql`;
  },
  "Apollo Server on Fastify": async (started: Started): Promise<string> => {
    const { cookie, hidesResponse } = started.options;
    const app = fastify({ forceCloseConnections: true });
    const server = apolloServer(started, fastifyApolloDrainPlugin(app));
    await server.start();
    if (cookie === "later hook") app.addHook("onSend", async (_, reply) => void reply.header(...COOKIE));
    await app.register(fastifyApollo(server), {
      context: async ({ headers }, reply) => ({
        ...useResponse(reply.raw, cookie),
        user: userOf(headers.authorization),
        ...(hidesResponse === true ? {} : { reply }),
      }),
    });
    return `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  },
  "GraphQL Yoga": async ({ cache, schema, options: { cookie, responses } }: Started): Promise<string> => {
    const setting = {
      onResponse: async ({ response }: { response: Response }) => {
        await later();
        response.headers.append(...COOKIE);
      },
    };
    const yoga = createYoga<{ res: Raw }, Context>({
      schema,
      logging: false,
      context: (({ request, res }: { request: Request; res: Raw }) => ({
        ...useResponse(res, cookie),
        user: userOf(request.headers.get("authorization")),
      })) as never,
      plugins: [useCached(cache, { edge: true, responses }), ...(cookie === "later plugin" ? [setting] : [])],
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
      context: (({ headers }: { headers: Record<string, string | undefined> }, { raw }: { raw: Raw }) => ({
        ...useResponse(raw, cookie),
        user: userOf(headers.authorization),
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
    privacy: { sharedContextKeys: ["setCookie", "res", "reply"] },
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
