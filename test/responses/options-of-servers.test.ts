import { ApolloServer } from "@apollo/server";
import { gate, settle } from "@graphql-cached/testing";
import { cachedPlugin } from "graphql-cached/apollo";
import { describe, expect, it, onTestFinished } from "vitest";
import { openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { now: Int @cacheControl(maxAge: 600) }
`;

it("a server whose `responses` stores no extensions sends none that another server of the cache has stored", async () => {
  const { cache, schema } = openSite({ typeDefs, resolvers: { Query: { now: () => 1 } }, server: "cache.execute" });
  const debug = {
    requestDidStart: async () => ({
      async willSendResponse({ response }: { response: { body: { singleResult: { extensions?: object } } } }) {
        response.body.singleResult.extensions = { debug: "internal" };
      },
    }),
  };
  const internal = new ApolloServer({
    schema,
    plugins: [debug as never, cachedPlugin(cache, { responses: { extensions: ["debug"] } }) as never],
  });
  const open = new ApolloServer({ schema, plugins: [cachedPlugin(cache, { responses: true }) as never] });
  onTestFinished(async () => {
    await internal.stop();
    await open.stop();
  });
  await internal.executeOperation({ query: "{ now }" }, { contextValue: {} });
  await settle();
  const { body } = await open.executeOperation({ query: "{ now }" }, { contextValue: {} });
  expect(JSON.stringify(body)).not.toContain("internal");
});

it("a server serves no response for longer than its own `maxAge` that another server of the cache has stored", async () => {
  let executions = 0;
  const { cache, schema, clock } = openSite({
    typeDefs,
    resolvers: { Query: { now: () => ++executions } },
    server: "cache.execute",
  });
  const long = new ApolloServer({ schema, plugins: [cachedPlugin(cache, { responses: true }) as never] });
  const short = new ApolloServer({ schema, plugins: [cachedPlugin(cache, { responses: { maxAge: 5 } }) as never] });
  onTestFinished(async () => {
    await long.stop();
    await short.stop();
  });
  await long.executeOperation({ query: "{ now }" }, { contextValue: {} });
  await settle();
  await clock.advance(60_000);
  await short.executeOperation({ query: "{ now }" }, { contextValue: {} });
  expect(executions).toBe(2);
});

describe.each(SERVERS)("on %s", (server) => {
  it("a request waits for the execution of another one for no longer than leaseWaitMs, as documented", async () => {
    const held = gate();
    let executions = 0;
    const now = async () => {
      if (++executions === 1) await held.passed;
      return executions;
    };
    const { ask, clock } = openSite({
      typeDefs,
      resolvers: { Query: { now } },
      server,
      cache: { leases: { leaseWaitMs: 2_000 } },
    });
    const first = ask("{ now }");
    for (let turn = 0; turn < 10; turn++) await settle();
    let isAnswered = false;
    const second = ask("{ now }").then(() => (isAnswered = true));
    for (let turn = 0; turn < 10; turn++) await settle();
    await clock.advance(2_500);
    for (let turn = 0; turn < 10; turn++) await settle();
    const before = isAnswered;
    held.open();
    await Promise.all([first, second]);
    expect(before).toBe(true);
  });
});
