import { ApolloServer } from "@apollo/server";
import { settle } from "@graphql-cached/testing";
import { describe, expect, it } from "vitest";
import { openSite, SERVERS } from "./site.js";

const typeDefs = /* GraphQL */ `
  type Query { now: Int @cacheControl(maxAge: 60)  broken: Int @cacheControl(maxAge: 60) }
`;

describe.each(SERVERS)("on %s", (server) => {
  it.each(["__proto__", "constructor", "toString", "data", "hasOwnProperty"])(
    "a hit equals the first response if a field has the alias %s",
    async (alias) => {
      const { ask } = openSite({ typeDefs, resolvers: { Query: { now: () => 1 } }, server });
      const first = JSON.stringify((await ask(`{ now ${alias}: now }`)).data);
      expect(JSON.stringify((await ask(`{ now ${alias}: now }`)).data)).toBe(first);
      expect(JSON.stringify((await ask(`{ now ${alias}: now }`)).data)).toBe(first);
    },
  );
});

describe.each(["Apollo Server"] as const)("on %s", (server) => {
  const masking = {
    requestDidStart: async () => ({
      async willSendResponse({
        contextValue,
        response,
      }: {
        contextValue: { user?: string };
        response: { body: { singleResult: { data: { now: unknown } } } };
      }) {
        const { data } = response.body.singleResult;
        response.body.singleResult.data = { ...data, now: `${data.now} seen by ${contextValue.user}` };
      },
    }),
  };

  it("what a plugin replaces in the response of one caller is not a part of what others get", async () => {
    // `plugins` of the site come after cachedPlugin. Here the other one comes first.
    const { cache, schema } = openSite({ typeDefs, resolvers: { Query: { now: () => 1 } }, server });
    const { cachedPlugin } = await import("graphql-cached/apollo");
    const apollo = new ApolloServer<{ user: string }>({
      schema,
      plugins: [masking as never, cachedPlugin(cache, { responses: true }) as never],
    });
    for (const user of ["ann", "bob"]) {
      const { body } = await apollo.executeOperation({ query: "{ now }" }, { contextValue: { user } });
      await settle();
      expect(JSON.stringify(body)).toContain(`"1 seen by ${user}"`);
    }
    await apollo.stop();
  });

  it("what a plugin masks in the response of one caller, which it makes cacheable, is not a part of what others get", async () => {
    const resolvers = { Query: { unhinted: () => 1 } };
    const { cache, schema } = openSite({ typeDefs: "type Query { unhinted: Int }", resolvers, server });
    const { cachedPlugin } = await import("graphql-cached/apollo");
    const policing = {
      requestDidStart: async () => ({
        async willSendResponse({
          contextValue,
          overallCachePolicy,
          response,
        }: {
          contextValue: { user?: string };
          overallCachePolicy: { replace(hint: object): void };
          response: { body: { singleResult: { data: { unhinted: unknown } } } };
        }) {
          overallCachePolicy.replace({ maxAge: 60, scope: "PUBLIC" });
          response.body.singleResult.data.unhinted += ` seen by ${contextValue.user}`;
        },
      }),
    };
    const apollo = new ApolloServer<{ user: string }>({
      schema,
      plugins: [policing as never, cachedPlugin(cache, { responses: true }) as never],
    });
    for (const user of ["ann", "bob", "cid", "dan"]) {
      const { body } = await apollo.executeOperation({ query: "{ unhinted }" }, { contextValue: { user } });
      await settle();
      expect(JSON.stringify(body)).toContain(`"1 seen by ${user}"`);
    }
    await apollo.stop();
  });

  it("what was executed with errors is not stored if a plugin that comes first takes the errors from the response", async () => {
    let isBroken = true;
    const resolvers = {
      Query: {
        broken: () => {
          if (isBroken) throw new Error("away");
          return 1;
        },
      },
    };
    const { cache, schema } = openSite({ typeDefs, resolvers, server });
    const { cachedPlugin } = await import("graphql-cached/apollo");
    const hiding = {
      requestDidStart: async () => ({
        async willSendResponse({ response }: { response: { body: { singleResult: { errors?: unknown } } } }) {
          response.body.singleResult.errors = undefined;
        },
      }),
    };
    const apollo = new ApolloServer({
      schema,
      plugins: [hiding as never, cachedPlugin(cache, { responses: true }) as never],
    });
    await apollo.executeOperation({ query: "{ broken }" }, { contextValue: {} });
    await settle();
    isBroken = false;
    const { body } = await apollo.executeOperation({ query: "{ broken }" }, { contextValue: {} });
    expect(JSON.stringify(body)).toContain('"broken":1');
    await apollo.stop();
  });
});
