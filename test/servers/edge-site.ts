import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { expressMiddleware } from "@as-integrations/express5";
import fastifyApollo from "@as-integrations/fastify";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import express from "express";
import fastify, { type FastifyInstance } from "fastify";
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
}

export interface Answer {
  readonly body: { readonly data?: unknown; readonly errors?: readonly unknown[]; readonly extensions?: unknown };
  readonly cacheControl: string | null;
  readonly tags: readonly string[];
  /** The header as it is. */
  readonly surrogateKey: string | null;
  readonly vary: string | null;
}

export type Ask = (
  query: string,
  headers?: Readonly<Record<string, string>>,
  method?: "GET" | "POST" | "HEAD",
  extensions?: object,
) => Promise<Answer>;

export interface SiteOptions {
  readonly edge?: boolean | EdgeOptions;
  readonly responses?: boolean | ResponsesOptions;
  readonly allow?: () => boolean;
  readonly store?: Store;
  readonly clock?: FakeClock;
  readonly cache?: CacheOptions<Context>;
  /** Of Apollo Server or Yoga. */
  readonly plugins?: readonly unknown[];
}

type Header = (name: string) => string | null | undefined;
const contextOf = (header: Header): Context => ({
  user: header("authorization") ?? header("x-user") ?? undefined,
  locale: header("accept-language") ?? undefined,
});
const searchOf = (query: string, extensions: object | undefined): Record<string, string> => ({
  query,
  ...(extensions === undefined ? {} : { extensions: JSON.stringify(extensions) }),
});
const answerOf = (body: Answer["body"], header: Header): Answer => ({
  body,
  cacheControl: header("cache-control") ?? null,
  tags: header("cache-tag")?.split(",") ?? [],
  surrogateKey: header("surrogate-key") ?? null,
  vary: header("vary") ?? null,
});

interface Started {
  readonly cache: Cache<Context>;
  readonly schema: GraphQLSchema;
  readonly options: SiteOptions;
}

async function startApollo({ cache, schema, options }: Started): Promise<ApolloServer<Context>> {
  const { edge = true, responses = false, allow } = options;
  const plugin = cachedPlugin(cache, { edge, responses, allow });
  const server = new ApolloServer<Context>({
    schema,
    plugins: [...((options.plugins ?? []) as never[]), plugin],
    csrfPrevention: false,
  });
  await server.start();
  onTestFinished(() => server.stop());
  return server;
}

const askFastify =
  (app: FastifyInstance): Ask =>
  async (query, headers = {}, method = "GET", extensions = undefined) => {
    const how = method !== "POST" ? { query: searchOf(query, extensions) } : { payload: { query, extensions } };
    const { headers: sent, body } = await app.inject({ method, url: "/graphql", headers, ...how });
    return answerOf(JSON.parse(body || "{}") as Answer["body"], (name) => sent[name] as string | undefined);
  };

/** Serves a schema. */
const servers = {
  "Apollo Server": async (started: Started): Promise<Ask> => {
    const server = await startApollo(started);
    return async (query, headers = {}, method = "GET", extensions = undefined) => {
      const given = new Map([["content-type", "application/json"], ...Object.entries(headers)]);
      const { body, headers: sent } = await server.executeHTTPGraphQLRequest({
        httpGraphQLRequest: {
          method,
          headers: given as never,
          search: method === "GET" ? `?${new URLSearchParams(searchOf(query, extensions)).toString()}` : "",
          body: method === "GET" ? undefined : { query, extensions },
        },
        context: async () => contextOf((name) => given.get(name)),
      });
      const text = body.kind === "complete" ? body.string : "{}";
      return answerOf(JSON.parse(text) as Answer["body"], (name) => sent.get(name));
    };
  },
  "Apollo Server on Express": async (started: Started): Promise<Ask> => {
    const server = await startApollo(started);
    const context = async ({ req, res }: { req: express.Request; res: express.Response }) => ({
      ...contextOf((name) => req.headers[name] as string | undefined),
      res,
    });
    const app = express().use("/graphql", express.json(), expressMiddleware(server, { context }));
    const httpServer = createServer(app).listen(0, "127.0.0.1");
    await once(httpServer, "listening");
    onTestFinished(() => void (httpServer.close(), httpServer.closeAllConnections()));
    const url = `http://127.0.0.1:${(httpServer.address() as AddressInfo).port}/graphql`;
    return async (query, headers = {}, method = "GET", extensions = undefined) => {
      const search = method === "POST" ? "" : `?${new URLSearchParams(searchOf(query, extensions)).toString()}`;
      const response = await fetch(`${url}${search}`, {
        method,
        headers: { "content-type": "application/json", ...headers },
        ...(method === "POST" ? { body: JSON.stringify({ query, extensions }) } : {}),
      });
      const text = await response.text();
      return answerOf(JSON.parse(text || "{}") as Answer["body"], (name) => response.headers.get(name));
    };
  },
  "Apollo Server on Fastify": async (started: Started): Promise<Ask> => {
    const app = fastify();
    onTestFinished(() => app.close());
    const context = async ({ headers }: { headers: object }, reply: object) => ({
      ...contextOf((name) => (headers as Record<string, string | undefined>)[name]),
      reply,
    });
    await app.register(fastifyApollo(await startApollo(started)), { context });
    return askFastify(app);
  },
  "GraphQL Yoga": async ({ cache, schema, options }: Started): Promise<Ask> => {
    const { edge = true, responses = false, allow } = options;
    const context = ({ request }: { request: Request }) => contextOf((name) => request.headers.get(name));
    const plugins = [...((options.plugins ?? []) as never[]), useCached(cache, { edge, responses, allow })];
    const yoga = createYoga<object, Context>({ schema, logging: false, context: context as never, plugins });
    onTestFinished(() => void yoga.dispose());
    return async (query, headers = {}, method = "GET", extensions = undefined) => {
      const search = new URLSearchParams(searchOf(query, extensions)).toString();
      const url = `http://yoga/graphql${method === "GET" ? `?${search}` : ""}`;
      const response = await yoga.fetch(url, {
        method,
        headers: { "content-type": "application/json", accept: "application/json", ...headers },
        ...(method === "GET" ? {} : { body: JSON.stringify({ query, extensions }) }),
      });
      return answerOf((await response.json()) as Answer["body"], (name) => response.headers.get(name));
    };
  },
  Mercurius: async ({ cache, schema, options }: Started): Promise<Ask> => {
    const app = fastify();
    onTestFinished(() => app.close());
    const context = ({ headers }: { headers: Record<string, string | undefined> }) =>
      contextOf((name) => headers[name]);
    await app.register(mercurius, { schema, context: context as never });
    cachedHooks<Context>(app, cache, { edge: options.edge ?? true, allow: options.allow });
    return askFastify(app);
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
  const serve = await servers[server]({ cache, schema, options });
  const ask: Ask = async (...request) => {
    const answer = await serve(...request);
    await settle();
    return answer;
  };
  return { cache, clock, schema, lines, served, ask };
}
