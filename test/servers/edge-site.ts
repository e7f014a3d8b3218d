import { once } from "node:events";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer, type ApolloServerPlugin } from "@apollo/server";
import { ApolloServerPluginLandingPageDisabled } from "@apollo/server/plugin/disabled";
import { ApolloServerPluginDrainHttpServer } from "@apollo/server/plugin/drainHttpServer";
import { startStandaloneServer } from "@apollo/server/standalone";
import { expressMiddleware } from "@as-integrations/express5";
import fastifyApollo, { fastifyApolloDrainPlugin } from "@as-integrations/fastify";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import express from "express";
import fastify from "fastify";
import type { GraphQLSchema } from "graphql";
import {
  applyCached,
  type Cache,
  type CacheOptions,
  cachedTypeDefs,
  createCache,
  type EdgeOptions,
  memoryStore,
  type ResponsesOptions,
} from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { cachedHooks } from "graphql-cached/mercurius";
import type { Store } from "graphql-cached/store";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { mercurius } from "mercurius";
import { onTestFinished } from "vitest";
import { HINTS } from "../responses/site.js";

export interface Context {
  readonly user: string | undefined;
  readonly locale: string | undefined;
  /** Sets a header of the response of Node.js. */
  setCookie?(): void;
}

/** Who sets a cookie. A session does so when the headers are written. */
export type CookieSetter = "later plugin" | "earlier middleware" | "resolver" | "session" | "later hook";

export interface SiteOptions {
  readonly edge?: boolean | EdgeOptions;
  readonly responses?: boolean | ResponsesOptions;
  readonly allow?: () => boolean;
  readonly store?: Store;
  readonly clock?: FakeClock;
  readonly cache?: CacheOptions<Context>;
  /** Of Apollo Server or Yoga, before that of the cache. */
  readonly plugins?: readonly unknown[];
  readonly cookie?: CookieSetter;
  /** Of Apollo Server. */
  readonly hasLandingPage?: boolean;
  /** Keeps the response of Express or Fastify out of the context of Apollo Server. */
  readonly hidesResponse?: boolean;
  /** Whether Mercurius has the hook of docs/edge.md for what is no response to an operation. */
  readonly isDocumented?: boolean;
}

interface Started {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
  readonly options: SiteOptions;
}

const COOKIE = ["set-cookie", "session=1"] as const;

/** The next turn of the event loop, in which hooks that come earlier are over. */
const later = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Fails for the user "nobody". */
function contextOf(header: (name: string) => unknown): Context {
  const user = (header("authorization") ?? header("x-user") ?? undefined) as string | undefined;
  if (user === "nobody") throw new Error("unknown user");
  return { user, locale: (header("accept-language") ?? undefined) as string | undefined };
}
const contextIn = (headers: object): Context => contextOf((name) => (headers as Record<string, unknown>)[name]);

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

function apolloServer({ cache, schema, options }: Started, ...drain: ApolloServerPlugin<Context>[]) {
  const { edge = true, responses = false, allow, cookie, plugins = [], hasLandingPage } = options;
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
      ...(plugins as never[]),
      cachedPlugin(cache, { edge, responses, allow }),
      ...(hasLandingPage === true ? [] : [ApolloServerPluginLandingPageDisabled()]),
      ...(cookie === "later plugin" ? [setting] : []),
      ...drain,
    ],
    logger: { debug: later, info: later, warn: later, error: later },
  });
  onTestFinished(() => server.stop());
  return server;
}

/** Listens on loopback until the test is over. Returns the URL. */
async function listen(listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await once(server.listen(0, "127.0.0.1"), "listening");
  onTestFinished(() => void (server.close(), server.closeAllConnections()));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
}

/** Each serves a schema, and returns the URL. */
const servers = {
  "Apollo Server": async (started: Started): Promise<string> => {
    const { cookie } = started.options;
    const { url } = await startStandaloneServer(apolloServer(started), {
      listen: { port: 0, host: "127.0.0.1" },
      context: async ({ req, res }) => ({
        ...useResponse(res, cookie),
        ...contextIn(req.headers),
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
      ...contextIn(req.headers),
      ...res.locals,
      ...(hidesResponse === true ? {} : { res }),
    });
    app.use("/graphql", express.json(), expressMiddleware(server, { context }));
    return listen(app);
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
        ...contextIn(headers),
        ...(hidesResponse === true ? {} : { reply }),
      }),
    });
    return `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  },
  "GraphQL Yoga": async ({ cache, schema, options }: Started): Promise<string> => {
    const { edge = true, responses = false, allow, cookie, plugins = [] } = options;
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
        ...contextOf((name) => request.headers.get(name)),
      })) as never,
      plugins: [
        ...(plugins as never[]),
        useCached(cache, { edge, responses, allow }),
        ...(cookie === "later plugin" ? [setting] : []),
      ],
    });
    return listen(yoga as never);
  },
  Mercurius: async ({ cache, schema, options }: Started): Promise<string> => {
    const { edge = true, allow, cookie, isDocumented } = options;
    const app = fastify({ forceCloseConnections: true });
    onTestFinished(() => app.close());
    const additionalRouteOptions = {
      onSend: async (_: unknown, reply: { hasHeader(name: string): boolean; header(...given: string[]): unknown }) =>
        void (reply.hasHeader("cache-control") || reply.header("cache-control", "no-store")),
    };
    await app.register(mercurius, {
      schema,
      ...((isDocumented === true ? { additionalRouteOptions } : {}) as object),
      context: (({ headers }: { headers: object }, { raw }: { raw: Raw }) => ({
        ...useResponse(raw, cookie),
        ...contextIn(headers),
      })) as never,
    });
    cachedHooks<Context>(app, cache, { edge, allow });
    if (cookie === "later plugin") app.addHook("onSend", async (_, reply) => void reply.header(...COOKIE));
    return `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  },
};
export type ServerName = keyof typeof servers;
export const SERVERS = Object.keys(servers) as ServerName[];

/** One process that serves a schema to a CDN. */
export async function openSite(
  server: ServerName,
  typeDefs: string,
  resolvers: object | ((cache: Cache<Context>) => object),
  options: SiteOptions = {},
) {
  const { clock = new FakeClock() } = options;
  const lines: string[] = [];
  const served: string[] = [];
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    privacy: { sharedContextKeys: ["setCookie", "res", "reply", "request"] },
    store: options.store ?? memoryStore({ clock }),
    testing: { clock },
    logger: { info: () => undefined, warn: (line) => lines.push(line) },
    identify: ({ user }) => user,
    onEvent: (event) => void (event.name === "entry.served" && served.push(event.outcome)),
    ...options.cache,
    defaults: { jitter: 0, earlyRefresh: 0, ...options.cache?.defaults },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, HINTS, typeDefs],
      resolvers: (typeof resolvers === "function" ? resolvers(cache) : resolvers) as never,
    }),
    cache,
  );
  const url = await servers[server]({ cache, schema, options });
  const ask = async (
    query: string,
    headers: Readonly<Record<string, string>> = {},
    method: "GET" | "POST" | "HEAD" = "GET",
    extensions?: object,
  ) => {
    const given = { query, ...(extensions === undefined ? {} : { extensions: JSON.stringify(extensions) }) };
    const response = await fetch(method === "POST" ? url : `${url}?${new URLSearchParams(given).toString()}`, {
      method,
      headers: { accept: "application/json", "content-type": "application/json", ...headers },
      ...(method === "POST" ? { body: JSON.stringify({ query, extensions }) } : {}),
    });
    const body = JSON.parse((await response.text()) || "{}") as {
      data?: unknown;
      errors?: unknown[];
      extensions?: unknown;
    };
    await settle();
    const { headers: sent } = response;
    return {
      body,
      cacheControl: sent.get("cache-control"),
      tags: sent.get("cache-tag")?.split(",") ?? [],
      surrogateKey: sent.get("surrogate-key"),
      vary: sent.get("vary"),
    };
  };
  return { cache, clock, schema, lines, served, ask, url };
}
