import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { ApolloServer } from "@apollo/server";
import { instrumentCache } from "@graphql-cached/observability/opentelemetry";
import { collectMetrics } from "@graphql-cached/observability/prometheus";
import { chaosStore, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { context } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { MeterProvider, MetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { Registry } from "prom-client";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { read } from "../../../test/project/source.js";

/** What a user's data looks like here: in ids, arguments, identities, context, tags, values and errors. */
const SECRET = /planted/i;
const secret = (what: string): string => `planted-${what}`;

const EVENTS = [...read("src/core/telemetry/events.ts").matchAll(/\breadonly name: "([a-z.A-Z]+)"/g)].map(
  ([, name]) => name as string,
);

class Reader extends MetricReader {
  protected onForceFlush = async (): Promise<void> => undefined;
  protected onShutdown = async (): Promise<void> => undefined;
}

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()));
afterAll(() => context.disable());

/** Collects the messages of all diagnostics channels until the test ends. */
function allMessages(): unknown[] {
  const messages: unknown[] = [];
  const listen = (message: unknown): void => void messages.push(message);
  for (const event of EVENTS) subscribe(`graphql-cached.${event}`, listen);
  onTestFinished(() => {
    for (const event of EVENTS) unsubscribe(`graphql-cached.${event}`, listen);
  });
  return messages;
}

interface Context {
  readonly userId: string;
}

/** An error whose message, name, code and properties contain user data. */
class SourceError extends Error {
  override name = secret("name");
  readonly code = secret("code");
  readonly extensions = { user: secret("extension") };
}

it("metrics, spans, diagnostics messages and headers contain no user data", async () => {
  const messages = allMessages();
  const exporter = new InMemorySpanExporter();
  const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] });
  const reader = new Reader();
  const register = new Registry();
  const store = chaosStore(Object.assign(memoryStore(), { isShared: true }));
  const cache = createCache<Context>({
    defaultScope: "PUBLIC",
    store,
    prefix: "shop",
    identify: ({ userId }) => userId,
    defaults: { jitter: 0, earlyRefresh: 0 },
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  instrumentCache(cache, { tracerProvider, meterProvider: new MeterProvider({ readers: [reader] }) });
  collectMetrics(cache, { register });
  const typeDefs = /* GraphQL */ `
    type Query {
      movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}", "Maker:{$result.maker}"])
      mine(note: String): String @cached(maxAge: 60, scope: PRIVATE)
      broken(id: ID!): String @cached(maxAge: 60)
      odd(id: ID!): Movie @cached(maxAge: 60)
    }
    type Mutation { rename(id: ID!): Movie @invalidates(tags: ["Movie:{$args.id}"]) }
    type Movie { id: ID! maker: String }
  `;
  const movie = (_: unknown, { id }: { id: string }) => ({ id, maker: secret("maker") });
  const resolvers = {
    Query: {
      movie,
      mine: (_: unknown, __: unknown, { userId }: Context) => `${userId} ${secret("value")}`,
      broken: () => {
        throw new SourceError(secret("message"));
      },
      odd: (_: unknown, { id }: { id: string }) => ({
        id,
        maker: secret("maker"),
        toJSON: () => secret("json"),
        save() {},
      }),
    },
    Mutation: { rename: movie },
  };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  const prices = cache.loader({
    name: "Price",
    maxAge: 60,
    tags: (id: string) => [`Price:${id}`],
    batch: async (ids: readonly string[]) => ids.map((id) => (id.includes("bad") ? new SourceError(id) : id)),
  });
  const server = new ApolloServer<Context>({ schema, plugins: [cachedPlugin(cache, { allow: () => true })] });
  onTestFinished(() => server.stop());
  const tracer = tracerProvider.getTracer("test");
  const headers: unknown[] = [];
  const answers: unknown[] = [];
  const ask = (query: string) =>
    tracer.startActiveSpan("request", async (span) => {
      const contextValue = { userId: secret("identity") };
      const variables = { id: secret("id"), note: secret("note") };
      const request = { query, variables, extensions: { cached: true } };
      const { body, http } = await server.executeOperation(request, { contextValue });
      answers.push(body);
      headers.push([...http.headers]);
      await prices(contextValue).loadMany([secret("key"), secret("bad")]);
      await settle();
      span.end();
    });
  const query =
    "query ($id: ID!, $note: String) { movie(id: $id) { id maker } mine(note: $note) broken(id: $id) odd(id: $id) { id } }";
  for (let nth = 0; nth < 2; nth++) await Promise.all([ask(query), ask(query)]);
  await ask("mutation ($id: ID!) { rename(id: $id) { id } }");
  await cache.invalidate({ coordinate: "Query.movie", args: { id: secret("id") } });
  await cache.invalidateTags([secret("tag")], { soft: true });
  await cache.mutate({ tags: [secret("tag")] }, () => undefined);
  store.chaos.mode = "throws";
  await ask(query);

  const { resourceMetrics } = await reader.collect();
  const spans = exporter
    .getFinishedSpans()
    .map(({ name, attributes, events, status, links }) => ({ name, attributes, events, status, links }));
  const surfaces = {
    metrics: JSON.stringify(resourceMetrics.scopeMetrics),
    prometheus: await register.metrics(),
    spans: JSON.stringify(spans),
    messages: JSON.stringify(messages),
    headers: JSON.stringify(headers),
  };
  // What is searched for is there to be found.
  expect(JSON.stringify(answers)).toMatch(SECRET);
  expect(surfaces.metrics).toContain("SourceError");
  expect(surfaces.prometheus).toContain('error_type="SourceError"');
  expect(surfaces.spans).toContain("graphql_cached.wait Query.movie");
  expect(surfaces.headers).toContain("cache-control");
  const published = new Set(messages.map((message) => (message as { name: string }).name));
  for (const name of ["entry.served", "load.failed", "store.failed", "invalidation.finished", "value.refused"])
    expect(published).toContain(name);
  for (const [surface, text] of Object.entries(surfaces)) expect(SECRET.exec(text)?.input, surface).toBeUndefined();
});
