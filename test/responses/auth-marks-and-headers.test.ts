import { ApolloServer, HeaderMap } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { cachedPlugin } from "graphql-cached/apollo";
import { useCached } from "graphql-cached/yoga";
import { createYoga, useExecutionCancellation } from "graphql-yoga";
import { describe, expect, it, onTestFinished } from "vitest";
import { type Context, openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  directive @auth on FIELD_DEFINITION | OBJECT | INTERFACE | UNION | ENUM | SCALAR | ARGUMENT_DEFINITION | INPUT_OBJECT | INPUT_FIELD_DEFINITION | SCHEMA
  type Query {
    now: Int @cacheControl(maxAge: 60)
    login: Int @cacheControl(maxAge: 60)
    level: Level @cacheControl(maxAge: 60)
    token: Token @cacheControl(maxAge: 60)
    byArg(of: Int @auth): String @cacheControl(maxAge: 60)
    node: Node @cacheControl(maxAge: 60)
    any: Any @cacheControl(maxAge: 60)
    deep: Deep @cacheControl(maxAge: 60)
  }
  enum Level @auth { LOW HIGH }
  scalar Token @auth
  interface Node { id: String }
  type Secret implements Node @auth { id: String }
  union Any = Secret
  type Deep { node: Node @cacheControl(maxAge: 60) list: [Any!] @cacheControl(maxAge: 60) }
`;
const own = (_: unknown, __: unknown, { user }: Context) => user ?? "nobody";
const secret = (_: unknown, __: unknown, { user }: Context) => ({ __typename: "Secret", id: user ?? "nobody" });
const resolvers = {
  Query: {
    now: () => 1,
    login: () => 1,
    level: (_: unknown, __: unknown, { user }: Context) => (user === "ann" ? "HIGH" : "LOW"),
    token: own,
    byArg: own,
    node: secret,
    any: secret,
    deep: () => ({}),
  },
  Deep: { node: secret, list: (...args: [unknown, unknown, Context]) => [secret(...args)] },
};

describe.each(SERVERS)("on %s", (server) => {
  it.each([
    "{ level }",
    "{ token }",
    "{ byArg(of: 1) }",
    "{ node { id } }",
    "{ node { ... on Secret { id } } }",
    "{ any { ... on Node { id } } }",
    "{ deep { node { id } } }",
    "{ deep { list { ...F } } } fragment F on Any { ... on Secret { id } }",
  ])("%s is not shared, since an auth mark covers it", async (query) => {
    const { ask } = openSite({ typeDefs, resolvers, server });
    const first = JSON.stringify((await ask(query, { user: "ann" })).data);
    expect(JSON.stringify((await ask(query, { user: "bob" })).data)).not.toBe(first);
  });
});

it("Apollo Server stores no response whose execution has replaced a cookie that every response has", async () => {
  let logins = 0;
  const login = (_: unknown, __: unknown, context: { headers: HeaderMap }) => {
    context.headers.set("set-cookie", `session=${++logins}`);
    return 1;
  };
  const { cache, schema } = openSite({
    typeDefs,
    resolvers: { ...resolvers, Query: { ...resolvers.Query, login } },
    server: "cache.execute",
    // Otherwise it is not stored because it depends on the context.
    cache: { privacy: { sharedContextKeys: ["headers"] } },
  });
  const csrf = {
    requestDidStart: async ({
      response,
      contextValue,
    }: {
      response: { http: { headers: HeaderMap } };
      contextValue: { headers?: HeaderMap };
    }) => {
      response.http.headers.set("set-cookie", "csrf=1");
      contextValue.headers = response.http.headers;
    },
  };
  const apollo = new ApolloServer({
    schema,
    plugins: [csrf as never, cachedPlugin(cache, { responses: true }) as never],
  });
  onTestFinished(() => apollo.stop());
  for (let time = 1; time <= 2; time++) {
    const { http } = await apollo.executeOperation({ query: "{ login }" }, { contextValue: {} });
    await settle();
    expect(http.headers.get("set-cookie")).toBe(`session=${time}`);
  }
});

it("Apollo Server stores no response whose execution has set a status", async () => {
  let executions = 0;
  const create = (_: unknown, __: unknown, context: { http: { status?: number } }) => {
    context.http.status = 202;
    return ++executions;
  };
  const { cache, schema } = openSite({
    typeDefs,
    resolvers: { ...resolvers, Query: { ...resolvers.Query, login: create } },
    server: "cache.execute",
    cache: { privacy: { sharedContextKeys: ["http"] } },
  });
  const exposed = {
    requestDidStart: async ({ response, contextValue }: { response: { http: object }; contextValue: object }) => {
      Object.assign(contextValue, { http: response.http });
    },
  };
  const apollo = new ApolloServer({
    schema,
    plugins: [exposed as never, cachedPlugin(cache, { responses: true }) as never],
  });
  onTestFinished(() => apollo.stop());
  for (let time = 1; time <= 2; time++) {
    const { http } = await apollo.executeOperation({ query: "{ login }" }, { contextValue: {} });
    await settle();
    expect([http.status, executions]).toEqual([202, time]);
  }
});

it("Apollo Server stores the responses of a batch", async () => {
  let executions = 0;
  const now = () => ++executions;
  const { cache, schema } = openSite({
    typeDefs,
    resolvers: { ...resolvers, Query: { ...resolvers.Query, now } },
    server: "cache.execute",
  });
  const apollo = new ApolloServer({
    schema,
    allowBatchedHttpRequests: true,
    plugins: [cachedPlugin(cache, { responses: true }) as never],
  });
  onTestFinished(() => apollo.stop());
  await apollo.start();
  const bodies: string[] = [];
  for (let time = 1; time <= 2; time++) {
    const { body } = await apollo.executeHTTPGraphQLRequest({
      httpGraphQLRequest: {
        method: "POST",
        search: "",
        headers: new HeaderMap([["content-type", "application/json"]]),
        body: [{ query: "{ now }" }, { query: "{ now }" }, { query: "{ a: now }" }],
      },
      context: async () => ({}),
    });
    bodies.push(body.kind === "complete" ? body.string : "");
    await settle();
  }
  expect(executions).toBe(2);
  expect(bodies[1]).toBe(bodies[0]);
});

it("GraphQL Yoga answers others who wait if the request that executes is aborted", async () => {
  const held = gate();
  let executions = 0;
  const now = async () => {
    executions++;
    if (executions === 1) await held.passed;
    return executions;
  };
  const { cache, schema } = openSite({
    typeDefs,
    resolvers: { ...resolvers, Query: { ...resolvers.Query, now } },
    server: "cache.execute",
  });
  const yoga = createYoga({
    schema,
    logging: false,
    plugins: [useExecutionCancellation(), useCached(cache, { responses: true }) as never],
  });
  onTestFinished(() => void yoga.dispose());
  const controller = new AbortController();
  const ask = (signal?: AbortSignal) =>
    yoga.fetch("http://localhost/graphql", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: "{ now }" }),
      ...(signal === undefined ? {} : { signal }),
    });
  const first = Promise.resolve(ask(controller.signal)).catch(() => undefined);
  for (let turn = 0; turn < 5; turn++) await settle();
  let isAnswered = false;
  const second = Promise.resolve(ask()).then(async (response) => {
    isAnswered = true;
    return response.json();
  });
  for (let turn = 0; turn < 5; turn++) await settle();
  controller.abort();
  for (let turn = 0; turn < 20; turn++) await settle();
  const before = isAnswered;
  held.open();
  await first;
  await second;
  expect(before).toBe(true);
});
