import { ApolloServer } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { cachedPlugin } from "graphql-cached/apollo";
import { expect, it, onTestFinished } from "vitest";
import { openSite } from "./site.js";

it("what a plugin adds to the context when all resolvers have returned says nothing of the response", async () => {
  let executions = 0;
  const { cache, schema } = openSite({
    typeDefs: "type Query { page: String @cacheControl(maxAge: 600) }",
    resolvers: { Query: { page: () => `Page ${++executions}` } },
    server: "cache.execute",
  });
  const adding = {
    requestDidStart: async () => ({
      async willSendResponse({ contextValue }: { contextValue: object }) {
        Object.assign(contextValue, { sentAt: 1 });
      },
    }),
  };
  const apollo = new ApolloServer({
    schema,
    plugins: [adding, cachedPlugin(cache as never, { responses: { scope: "PUBLIC" } })],
  });
  onTestFinished(() => apollo.stop());
  for (let nth = 0; nth < 3; nth++) {
    const { body } = await apollo.executeOperation({ query: "{ page }" }, { contextValue: {} });
    await settle();
    expect(body).toMatchObject({ singleResult: { data: { page: "Page 1" } } });
  }
});
