import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import {
  applyCached,
  cachedTypeDefs,
  createCache,
  inspectionResolvers,
  inspectionTypeDefs,
  invalidationResolvers,
  invalidationTypeDefs,
} from "graphql-cached";
import { inspectorHandler } from "graphql-cached/inspector";
import { expect, it } from "vitest";
import { call } from "../../support/inspector-calls.js";
import { afterCaches } from "../../support/world.js";

const yes = (): boolean => true;
const WINDOW = { window: "SINCE_START" };

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly body: { readonly query: string };
}

type Answer = (
  received: Received,
) => Promise<{ readonly status?: number; readonly type?: string; readonly text: string }>;

/** Serves an endpoint, and returns its URL and what it receives. */
async function serve(answer: Answer): Promise<{ url: string; received: Received[] }> {
  const received: Received[] = [];
  const server = createServer(async (request, response) => {
    const body = JSON.parse((await buffer(request)).toString()) as Received["body"];
    const one = { headers: request.headers, body };
    received.push(one);
    const { status = 200, type = "application/json", text } = await answer(one);
    response.writeHead(status, { "content-type": type }).end(text);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  afterCaches(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/graphql`, received };
}

const serveSchema = (schema: GraphQLSchema): ReturnType<typeof serve> =>
  serve(async ({ headers, body }) => ({
    text: JSON.stringify(
      await graphql({
        schema,
        source: body.query,
        variableValues: (body as { variables?: Record<string, unknown> }).variables ?? {},
        contextValue: { isOperator: headers.authorization === "Bearer operator" },
      }),
    ),
  }));

/** A server with everything that the page can use, for callers with a token. */
async function serveAll() {
  const cache = createCache();
  afterCaches(() => cache.close());
  const allow = ({ isOperator }: { isOperator?: boolean }): boolean => isOperator === true;
  const typeDefs = "type Query { movie(id: ID!): String @cached(maxAge: 60) } type Mutation";
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, invalidationTypeDefs, typeDefs],
      resolvers: [
        { Query: { movie: () => "Ran" } },
        inspectionResolvers(cache, { allow }),
        invalidationResolvers(cache, { allow }),
      ],
    }),
    cache,
  );
  const read = async (): Promise<void> => {
    await graphql({ schema, source: "{ movie(id: 7) }", contextValue: {} });
    await settle();
  };
  return { ...(await serveSchema(schema)), read };
}

it("asks a GraphQL endpoint, with the headers that the option returns for a request", async () => {
  const { url, read, received } = await serveAll();
  await read();
  const handler = inspectorHandler({
    endpoint: url,
    headers: (request: Request) => ({
      authorization: request.headers.get("authorization") ?? undefined,
      none: undefined,
    }),
    allow: yes,
    allowInvalidation: yes,
  });
  const operator = { authorization: "Bearer operator" };
  const { data, missing } = await call(handler, "overview", WINDOW, operator);
  expect([data?.total, missing]).toMatchObject([{ reads: 1, loaded: 1 }, []]);
  expect(received).toHaveLength(1);
  expect(received[0]?.headers).toMatchObject({ authorization: "Bearer operator", "content-type": "application/json" });
  expect(received[0]?.headers).not.toHaveProperty("none");
  const key = { coordinate: "Query.movie", args: { id: 7 } };
  expect((await call(handler, "entry", key, operator)).data?.entry).toMatchObject({ use: "FRESH" });
  await call(handler, "invalidateEntry", { ...key, soft: false }, operator);
  expect((await call(handler, "entry", key, operator)).data?.entry).toMatchObject({
    reason: "REMOVED",
    invalidation: { via: "cacheInvalidate" },
  });
});

it("says that the endpoint denies this process, and how to pass credentials", async () => {
  const { url } = await serveAll();
  const handler = inspectorHandler({ endpoint: url, allow: yes, allowInvalidation: yes });
  for (const [operation, variables, code] of [
    ["overview", WINDOW, "CACHED_INSPECTION_DENIED"],
    ["invalidateAll", { coordinate: "Query.movie", soft: false }, "CACHED_INVALIDATION_DENIED"],
  ] as const)
    expect((await call(handler, operation, variables)).error).toEqual({
      code,
      message: expect.stringMatching(/^The GraphQL endpoint denies this: .*`headers`/),
    });
});

it("asks the endpoint nothing for a caller whom its own allow does not admit", async () => {
  const { url, received } = await serveAll();
  const handler = inspectorHandler({
    endpoint: url,
    headers: { authorization: "Bearer operator" },
    allow: () => false,
  });
  expect((await call(handler, "overview", WINDOW)).error?.code).toBe("CACHED_INSPECTION_DENIED");
  expect(received).toEqual([]);
});

it("removes the arguments of hot keys that its own allow does not grant", async () => {
  const { url, read } = await serveAll();
  const headers = { authorization: "Bearer operator" };
  const full = inspectorHandler({ endpoint: url, headers, allow: yes });
  const limited = inspectorHandler({ endpoint: url, headers, allow: (_request, detail) => detail === undefined });
  await call(full, "overview", WINDOW);
  await read();
  const keysOf = async (handler: typeof full) =>
    ((await call(handler, "overview", WINDOW)) as { data: { hotKeys: { keys: unknown[] } } }).data.hotKeys.keys;
  expect(await keysOf(full)).toMatchObject([{ coordinate: "Query.movie", args: { id: "7" }, reads: 1 }]);
  expect(await keysOf(limited)).toMatchObject([{ coordinate: "Query.movie", args: null, source: null, id: null }]);
});

it("shows what a server of an older release knows, and names what it lacks", async () => {
  const typeDefs = /* GraphQL */ `
    type Query { cacheInspection: Inspection }
    type Inspection { stats: Stats fields: [Field!] entry(coordinate: String!, args: CacheArguments, source: CacheArguments, context: CacheArguments, id: CacheId, private: ID): Entry }
    type Stats { reads: Float hit: Float stale: Float staleIfError: Float loaded: Float coalesced: Float bypassed: Float loads: Float failedLoads: Float }
    type Field { coordinate: String maxAge: Float stats: Stats }
    type Entry { state: String negative: Boolean ageMs: Float freshForMs: Float loadMs: Float valueBytes: Int leaseForMs: Float outdated: Boolean stale: Boolean }
    scalar CacheArguments
    scalar CacheId
  `;
  const stats = {
    reads: 3,
    hit: 2,
    stale: 0,
    staleIfError: 0,
    loaded: 1,
    coalesced: 0,
    bypassed: 0,
    loads: 1,
    failedLoads: 0,
  };
  const cacheInspection = () => ({
    stats,
    fields: [{ coordinate: "Query.movie", maxAge: 60, stats }],
    entry: {
      state: "VALUE",
      negative: false,
      ageMs: 1,
      freshForMs: 2,
      loadMs: 1,
      valueBytes: 1,
      outdated: false,
      stale: false,
    },
  });
  const { url } = await serveSchema(makeExecutableSchema({ typeDefs, resolvers: { Query: { cacheInspection } } }));
  const handler = inspectorHandler({ endpoint: url, allow: yes });
  const { data, missing } = await call(handler, "overview", WINDOW);
  expect(data?.stats).toMatchObject({ reads: 3, hit: 2 });
  expect(missing?.map(({ section }) => section)).toEqual([
    "total",
    "hotKeys",
    "leases",
    "states",
    "processes",
    "events",
    "invalidations",
  ]);
  expect(missing?.find(({ section }) => section === "leases")).toEqual({
    section: "leases",
    code: "INSPECTION_OLDER",
    message: "The inspection of this server has no `leases`, or an older form of it; update graphql-cached there.",
  });
  expect((await call(handler, "fields", WINDOW)).data?.fields).toHaveLength(1);
  expect((await call(handler, "entry", { coordinate: "Query.movie" })).data?.entry).toMatchObject({ state: "VALUE" });
});

it("says that a server has no inspection", async () => {
  const schema = makeExecutableSchema({ typeDefs: "type Query { other: Int }", resolvers: {} });
  const { url } = await serveSchema(schema);
  const { error } = await call(inspectorHandler({ endpoint: url, allow: yes }), "overview", WINDOW);
  expect(error).toEqual({
    code: "INSPECTION_MISSING",
    message: expect.stringContaining("add inspectionTypeDefs and inspectionResolvers"),
  });
});

it.each([
  ["HTML", { type: "text/html", text: "<h1>Welcome</h1>" }, /but text\/html \(HTTP 200\); is it the URL/],
  ["a refusal of a proxy", { status: 403, type: "text/plain", text: "no" }, /denies access \(HTTP 403\)/],
  ["a JSON array", { text: "[]" }, /sent no answer of a GraphQL server/],
  ["null", { text: "null" }, /sent no answer of a GraphQL server/],
  [
    "an error of a gateway",
    { text: '{"errors":[{"message":"x","extensions":{"code":"UNAUTHENTICATED"}}]}' },
    /UNAUTHENTICATED/,
  ],
  ["errors that are no objects", { text: '{"errors":[null, 7]}' }, /has no inspection of graphql-cached/],
])("says what is wrong with an endpoint that sends %s", async (_name, answer, message) => {
  const { url } = await serve(async () => answer);
  const { error, data } = await call(inspectorHandler({ endpoint: url, allow: yes }), "overview", WINDOW);
  expect([data, error?.message]).toEqual([undefined, expect.stringMatching(message)]);
});

it("says that nothing listens, and that its headers are invalid, without repeating them", async () => {
  const endpoint = "http://127.0.0.1:9/graphql?token=secret";
  const unreachable = await call(inspectorHandler({ endpoint, allow: yes }), "store");
  expect(unreachable.error).toEqual({
    code: "ENDPOINT_UNREACHABLE",
    message: expect.stringMatching(/^http:\/\/127\.0\.0\.1:9\/graphql cannot be reached: /),
  });
  const { error } = await call(inspectorHandler({ endpoint, headers: { cookie: "a\nsecret" }, allow: yes }), "store");
  expect(error?.code).toBe("HEADERS_INVALID");
  expect(error?.message).not.toContain("secret");
});
