import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, request, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import fastify from "fastify";
import type { GraphQLSchema } from "graphql";
import { applyCached, type CacheEvent, cachedTypeDefs, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { createYoga } from "graphql-yoga";
import { Redis } from "ioredis";
import { mercurius } from "mercurius";
import { describe, expect, it, onTestFinished } from "vitest";
import { acceptsThisGraphql } from "../support/graphql-17.js";
import { until } from "../support/redis-lab.js";
import { sharedServer } from "../support/shared-servers.js";
import { TcpProxy } from "../support/tcp-proxy.js";

/** Yoga's context has a request with a signal of its own. */
interface Context {
  readonly request: { readonly signal: AbortSignal };
}

/** Called for each request that a server executes. */
type Watch = (response: ServerResponse) => Context;

interface Running {
  readonly url: string;
  stop(): Promise<unknown>;
}

const STARTS: Readonly<Record<string, (schema: GraphQLSchema, watch: Watch) => Promise<Running>>> = {
  async apollo(schema, watch) {
    const server = new ApolloServer<Context>({ schema });
    const listen = { port: 0, host: "127.0.0.1" };
    const { url } = await startStandaloneServer(server, { listen, context: async ({ res }) => watch(res) });
    return { url, stop: () => server.stop() };
  },
  async yoga(schema, watch) {
    const yoga = createYoga<{ readonly res: ServerResponse }>({ schema, logging: false });
    const server = createServer((incoming, response) => {
      watch(response);
      void yoga(incoming, response);
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    const stop = (): Promise<unknown> => once(server.close(), "close");
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`, stop };
  },
  async mercurius(schema, watch) {
    const app = fastify();
    await app.register(mercurius, { schema, context: (_, reply) => watch(reply.raw) });
    return { url: `${await app.listen({ port: 0, host: "127.0.0.1" })}/graphql`, stop: () => app.close() };
  },
};

/** A client with a connection of its own. */
interface Client {
  readonly responded: Promise<IncomingMessage>;
  readonly data: Promise<unknown>;
  /** Destroys the connection. */
  hangUp(): void;
}

function ask(url: string, query: string): Client {
  const headers = { "content-type": "application/json" };
  const sent = request(url, { method: "POST", agent: false, headers }).end(JSON.stringify({ query }));
  const responded = once(sent, "response").then(([response]) => response as IncomingMessage);
  responded.catch(() => undefined);
  return {
    responded,
    get data() {
      return responded.then(text).then((body) => (JSON.parse(body) as { readonly data: unknown }).data);
    },
    hangUp: () => void sent.destroy(),
  };
}

const typeDefs = `
  type Query { price: Int @cached(maxAge: 600, tags: ["Price"]) slow: Int @cached(maxAge: 600) }
  type Mutation { set(price: Int!): Receipt @invalidates(tags: ["Price"]) }
  type Receipt { price: Int text: String }
`;

/** Larger than what a connection buffers. */
const LONG_TEXT = "x".repeat(16 * 1024 * 1024);

/** Two caches, as of two processes, each behind its own server and its own connection to one Redis. */
async function startPair(server: string) {
  const source = { price: 1, writes: 0, loads: 0, slowLoads: 0 };
  const write = { before: gate(), after: async (): Promise<void> => undefined };
  const slow = gate();
  const resolvers = {
    Query: {
      price() {
        source.loads++;
        return source.price;
      },
      async slow() {
        const nth = ++source.slowLoads;
        await slow.passed;
        return nth;
      },
    },
    Mutation: {
      async set(_: unknown, { price }: { readonly price: number }) {
        source.writes++;
        await write.before.passed;
        source.price = price;
        await write.after();
        return { price, text: LONG_TEXT };
      },
    },
  };
  const prefix = `hang-up-${randomUUID()}`;
  const startSite = async () => {
    const network = await TcpProxy.before(await sharedServer("redisStandalone"));
    const client = new Redis(network.port, network.host);
    const events: CacheEvent[] = [];
    const cache = createCache<Context>({
      defaultScope: "PUBLIC",
      prefix,
      store: redisStore({ client }),
      // High enough that a slow reply on a busy machine does not become a miss.
      storage: { storeTimeoutMs: 5_000 },
      // The cache finds this signal by itself as well.
      loads: { abortSignal: (context) => context.request.signal },
      privacy: { warnOnContextReads: false },
      onEvent: (event) => events.push(event),
    });
    const requests = { begun: 0, closed: 0 };
    const watch: Watch = (response) => {
      const controller = new AbortController();
      requests.begun++;
      response.once("close", () => {
        requests.closed++;
        if (!response.writableFinished) controller.abort(new Error("the client has hung up"));
      });
      return { request: { signal: controller.signal } };
    };
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
    const running = await STARTS[server]?.(schema, watch);
    if (running === undefined) throw new Error(`expected a server, got ${server}`);
    let isStopped = false;
    /** Stops the server, then the cache, then the client, as a process does that is asked to end. */
    const stop = async (): Promise<void> => {
      if (isStopped) return;
      isStopped = true;
      await running.stop();
      await cache.close();
      client.disconnect();
    };
    onTestFinished(async () => {
      network.deliver("requests");
      await stop();
      await network.close();
    });
    const countOf = (name: CacheEvent["name"]): number => events.filter((event) => event.name === name).length;
    const send = (query: string): Client => ask(running.url, query);
    return { network, requests, countOf, send, stop, price: () => send("{ price }").data };
  };
  const [first, second] = await Promise.all([startSite(), startSite()]);
  expect(await first.price()).toEqual({ price: 1 });
  await until("the value is stored", () => first.countOf("write.finished") === 1);
  expect(await second.price()).toEqual({ price: 1 });
  /** Expects that both serve the written value, which one of them loads. */
  const expectWritten = async (): Promise<void> => {
    for (const site of [second, first]) expect(await site.price()).toEqual({ price: 2 });
    expect(source.loads).toBe(2);
  };
  const hangUp = async (client: Client): Promise<void> => {
    client.hangUp();
    await until("the server sees it", () => first.requests.closed === first.requests.begun);
  };
  const isInvalidated = (): Promise<void> =>
    until("the mutation has invalidated", () => first.countOf("invalidation.finished") === 1);
  return { source, write, slow, first, second, hangUp, isInvalidated, expectWritten };
}

const MUTATION = "mutation { set(price: 2) { price text } }";
const servers = Object.keys(STARTS).filter(acceptsThisGraphql);

describe.each(servers)("a client of %s that destroys its connection", (server) => {
  it("does not keep a mutation from invalidating, if its resolver has not returned yet", async () => {
    const { source, write, first, hangUp, isInvalidated, expectWritten } = await startPair(server);
    const client = first.send(MUTATION);
    await until("the resolver runs", () => source.writes === 1);
    await hangUp(client);
    write.before.open();
    await isInvalidated();
    await expectWritten();
  });

  it("does not keep a mutation from invalidating, if the invalidation has not reached Redis yet", async () => {
    const { write, first, second, hangUp, isInvalidated, expectWritten } = await startPair(server);
    write.after = async () => first.network.hold("requests");
    write.before.open();
    const client = first.send(MUTATION);
    await until("the invalidation is sent", () => first.network.heldBytes("requests") > 0);
    await hangUp(client);
    expect(await second.price()).toEqual({ price: 1 });
    first.network.deliver("requests");
    await isInvalidated();
    await expectWritten();
  });

  it("gets a part of the response of a mutation only after the invalidation", async () => {
    const { write, first, hangUp, expectWritten } = await startPair(server);
    write.before.open();
    const client = first.send(MUTATION);
    const response = await client.responded;
    response.once("error", () => undefined);
    await once(response, "data");
    await hangUp(client);
    expect(response.complete).toBe(false);
    await expectWritten();
  });

  it("does not keep a mutation from invalidating, if its process is asked to end", async () => {
    const { source, write, first, second, hangUp } = await startPair(server);
    const client = first.send(MUTATION);
    await until("the resolver runs", () => source.writes === 1);
    await hangUp(client);
    let hasStopped = false;
    const stopped = first.stop().then(() => {
      hasStopped = true;
    });
    for (let turn = 0; turn < 3; turn++) expect(await second.price()).toEqual({ price: 1 });
    expect(hasStopped).toBe(false);
    write.before.open();
    await stopped;
    expect(await second.price()).toEqual({ price: 2 });
  });

  it("leaves its load to those that wait for it in both processes, and no unhandled rejection", async () => {
    const { source, slow, first, second } = await startPair(server);
    const client = first.send("{ slow }");
    await until("the load runs", () => source.slowLoads === 1);
    const sites = [first, second, second];
    const waiting = sites.map((site) => site.send("{ slow }").data);
    await until("the others have asked", () => first.requests.begun === 3 && second.requests.begun === 3);
    client.hangUp();
    await until("the server sees it", () => first.requests.closed === 2);
    slow.open();
    expect(await Promise.all(waiting)).toEqual(sites.map(() => ({ slow: 1 })));
    expect(source.slowLoads).toBe(1);
  });
});
