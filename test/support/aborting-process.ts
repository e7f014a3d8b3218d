/**
 * One process of a test: a GraphQL server over HTTP whose cached fields fetch from a slow service. The
 * environment provides SERVER (apollo, yoga or mercurius), REDIS_PORT, PREFIX and UPSTREAM. Sends its
 * address to the parent process.
 */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import type { GraphQLResolveInfo } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { createYoga } from "graphql-yoga";
import { Redis } from "ioredis";
import { mercurius } from "mercurius";

const { SERVER = "", REDIS_PORT, PREFIX = "", UPSTREAM = "" } = process.env;

/** Under Yoga, the context has the `request` instead of a `signal`. */
interface Context {
  readonly signal?: AbortSignal;
  readonly request?: { readonly signal: AbortSignal };
}

/** The signal of one HTTP request: it aborts if the client hangs up before it has the response. */
function signalOf(response: ServerResponse): AbortSignal {
  const controller = new AbortController();
  response.once("close", () => {
    if (!response.writableFinished) controller.abort();
  });
  return controller.signal;
}

type Info = GraphQLResolveInfo & { readonly getAbortSignal?: () => AbortSignal };

async function fetchNumber(path: string, signal: AbortSignal | undefined): Promise<number> {
  const response = await fetch(UPSTREAM + path, signal === undefined ? {} : { signal });
  return Number(await response.text());
}

const typeDefs = `type Query {
  "Passes on the signal of the request, which is wrong, but common."
  careless(id: ID!): Int @cached(maxAge: 600)
  "Passes on the signal of the load."
  careful(id: ID!): Int @cached(maxAge: 600)
}`;
const resolvers = {
  Query: {
    careless: (_: unknown, { id }: { id: string }, context: Context) =>
      fetchNumber(`/careless/${id}`, context.request?.signal ?? context.signal),
    careful: (_: unknown, { id }: { id: string }, __: Context, info: Info) =>
      fetchNumber(`/careful/${id}`, info.getAbortSignal?.()),
  },
};

const cache = createCache<Context>({
  defaultScope: "PUBLIC",
  store: redisStore({ client: new Redis(Number(REDIS_PORT), "127.0.0.1") }),
  prefix: PREFIX,
  // High enough that a slow reply on a busy machine does not become a miss.
  storage: { storeTimeoutMs: 5_000 },
  loads: { abortSignal: ({ signal }) => signal },
  privacy: { warnOnContextReads: false },
});
const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);

const servers: Readonly<Record<string, () => Promise<string>>> = {
  async apollo() {
    const server = new ApolloServer<Context>({ schema });
    const { url } = await startStandaloneServer(server, {
      listen: { port: 0, host: "127.0.0.1" },
      context: async ({ res }) => ({ signal: signalOf(res) }),
    });
    return url;
  },
  async yoga() {
    const server = createServer(createYoga({ schema, logging: false }));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`;
  },
  async mercurius() {
    const app = fastify();
    await app.register(mercurius, { schema, jit: 1, context: (_, reply) => ({ signal: signalOf(reply.raw) }) });
    return `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`;
  },
};

process.send?.(await servers[SERVER]?.());
