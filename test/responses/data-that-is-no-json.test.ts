import { ApolloServer } from "@apollo/server";
import { FakeClock, settle } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { GraphQLScalarType, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { expect, it, onTestFinished } from "vitest";
import { HINTS } from "./site.js";

const typeDefs = /* GraphQL */ `
  scalar Big
  type Query { big: Big @cacheControl(maxAge: 60) }
`;

function open() {
  const clock = new FakeClock();
  const cache = createCache({
    defaultScope: "PUBLIC",
    store: memoryStore({ clock }),
    testing: { clock },
    logger: { warn: () => undefined, info: () => undefined },
    defaults: { jitter: 0, earlyRefresh: 0 },
  });
  // A load that never ends delays what closes until the time limit of loads.
  onTestFinished(async () => {
    const closed = cache.close();
    for (let turn = 0; turn < 40; turn++) {
      await settle();
      await clock.advance(1_000);
    }
    await closed;
  });
  let executions = 0;
  const Big = new GraphQLScalarType({ name: "Big", serialize: (value) => value });
  const resolvers = {
    Big,
    Query: {
      big: () => {
        executions++;
        return 2n ** 60n;
      },
    },
  };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, HINTS, typeDefs], resolvers }), cache);
  return { cache, clock, schema, executions: () => executions };
}

it("cache.execute answers as without the cache if a scalar is serialised to what JSON lacks", async () => {
  const { cache, schema } = open();
  const document = parse("{ big }");
  const { data, errors } = await cache.execute({ schema, document, contextValue: {} });
  expect([data?.big, errors]).toEqual([2n ** 60n, undefined]);
});

it("the next request is answered at once after a response that JSON.stringify has refused", async () => {
  const { cache, schema, clock, executions } = open();
  const document = parse("{ big }");
  await cache.execute({ schema, document, contextValue: {} }).catch(() => undefined);
  await settle();
  let hasAnswered = false;
  const answer = cache
    .execute({ schema, document, contextValue: {} })
    .catch(() => undefined)
    .finally(() => (hasAnswered = true));
  for (let turn = 0; turn < 20; turn++) await settle();
  const before = [hasAnswered, executions()];
  await clock.advance(31_000);
  await answer;
  expect(before).toEqual([true, 2]);
});

it("Apollo Server answers with its own stringifyResult although JSON.stringify would refuse the data", async () => {
  const { cache, schema } = open();
  const apollo = new ApolloServer({
    schema,
    stringifyResult: (value) => JSON.stringify(value, (_, one) => (typeof one === "bigint" ? String(one) : one)),
    plugins: [cachedPlugin(cache, { responses: true })],
  });
  onTestFinished(() => void apollo.stop().catch(() => undefined));
  const { body, http } = await apollo.executeOperation({ query: "{ big }" }, { contextValue: {} });
  expect(http.status).not.toBe(500);
  expect(body).toMatchObject({ kind: "single", singleResult: { data: { big: 2n ** 60n } } });
});
