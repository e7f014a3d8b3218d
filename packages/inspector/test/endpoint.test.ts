import { createServer, type IncomingHttpHeaders } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { inspectorHandler } from "@graphql-cached/inspector";
import { settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache, inspectionResolvers, inspectionTypeDefs } from "graphql-cached";
import { expect, it } from "vitest";
import { call } from "../../../test/support/inspector-calls.js";
import { afterCaches } from "../../../test/support/world.js";

const yes = (): boolean => true;

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
  const cache = createCache({ defaultScope: "PUBLIC" });
  afterCaches(() => cache.close());
  const allow = ({ isOperator }: { isOperator?: boolean }): boolean => isOperator === true;
  const typeDefs = "type Query { movie(id: ID!): String @cached(maxAge: 60) }";
  const schema = applyCached(
    makeExecutableSchema({
      typeDefs: [cachedTypeDefs, inspectionTypeDefs, typeDefs],
      resolvers: [{ Query: { movie: () => "Ran" } }, inspectionResolvers(cache, { allow })],
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
  });
  const operator = { authorization: "Bearer operator" };
  const { data } = await call(handler, "overview", {}, operator);
  expect(data?.counts).toMatchObject({ total: { sinceStart: { reads: 1, loaded: 1 } } });
  expect(received).toHaveLength(1);
  expect(received[0]?.headers).toMatchObject({ authorization: "Bearer operator", "content-type": "application/json" });
  expect(received[0]?.headers).not.toHaveProperty("none");
  const key = { coordinate: "Query.movie", args: { id: 7 } };
  expect((await call(handler, "entry", key, operator)).data?.entry).toMatchObject({ use: "FRESH" });
});

it("says that the endpoint denies this process, and how to pass credentials", async () => {
  const { url } = await serveAll();
  const handler = inspectorHandler({ endpoint: url, allow: yes });
  expect((await call(handler, "overview")).error).toEqual({
    code: "CACHED_INSPECTION_DENIED",
    message: expect.stringMatching(/^The GraphQL endpoint denies access .*`headers`/),
  });
});

it("asks the endpoint nothing for a caller whom its own allow does not admit", async () => {
  const { url, received } = await serveAll();
  const handler = inspectorHandler({
    endpoint: url,
    headers: { authorization: "Bearer operator" },
    allow: () => false,
  });
  expect((await call(handler, "overview")).error?.code).toBe("CACHED_INSPECTION_DENIED");
  expect(received).toEqual([]);
});

it("says that a server has the inspection of another release", async () => {
  const typeDefs = "type Query { cacheInspection: Inspection } type Inspection { stats: Int }";
  const { url } = await serveSchema(makeExecutableSchema({ typeDefs }));
  const { error } = await call(inspectorHandler({ endpoint: url, allow: yes }), "overview");
  expect(error).toEqual({
    code: "INSPECTION_MISSING",
    message: expect.stringMatching(/or update graphql-cached there\. It says: Cannot query field "counts"/),
  });
});

it("says that a server has no inspection", async () => {
  const schema = makeExecutableSchema({ typeDefs: "type Query { other: Int }", resolvers: {} });
  const { url } = await serveSchema(schema);
  const { error } = await call(inspectorHandler({ endpoint: url, allow: yes }), "overview");
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
  ["errors that are no objects", { text: '{"errors":[null, 7]}' }, /has no inspection of this release/],
])("says what is wrong with an endpoint that sends %s", async (_name, answer, message) => {
  const { url } = await serve(async () => answer);
  const { error, data } = await call(inspectorHandler({ endpoint: url, allow: yes }), "overview");
  expect([data, error?.message]).toEqual([undefined, expect.stringMatching(message)]);
});

it("says that nothing listens, and that its headers are invalid, without repeating them", async () => {
  const endpoint = "http://127.0.0.1:9/graphql?token=secret";
  const unreachable = await call(inspectorHandler({ endpoint, allow: yes }), "policies");
  expect(unreachable.error).toEqual({
    code: "ENDPOINT_UNREACHABLE",
    message: expect.stringMatching(/^http:\/\/127\.0\.0\.1:9\/graphql cannot be reached: /),
  });
  const { error } = await call(
    inspectorHandler({ endpoint, headers: { cookie: "a\nsecret" }, allow: yes }),
    "policies",
  );
  expect(error?.code).toBe("HEADERS_INVALID");
  expect(error?.message).not.toContain("secret");
});
