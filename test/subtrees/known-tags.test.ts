import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";

it("knows the tags of entities whose id has a resolver", async () => {
  const warnings: string[] = [];
  const cache = createCache({ logger: { info: () => undefined, warn: (line) => warnings.push(line) } });
  onTestFinished(() => cache.close());
  let builds = 0;
  const typeDefs = "type Query { user: User @cached(maxAge: 60, subtree: true) } type User { id: ID! name: String }";
  const resolvers = {
    Query: { user: () => ({ key: 7 }) },
    User: { id: ({ key }: { readonly key: number }) => key, name: () => `Ann ${++builds}` },
  };
  const source = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });
  const schema = applyCached(source, cache, { entityTags: true });
  const ask = async (): Promise<unknown> =>
    (await cache.execute({ schema, document: parse("{ user { name } }"), contextValue: {} }, false)).data;
  expect(await ask()).toEqual({ user: { name: "Ann 1" } });
  warnings.length = 0;
  await cache.invalidateTags(["User:7"]);
  expect(await ask()).toEqual({ user: { name: "Ann 2" } });
  await cache.invalidateTags(["User"]);
  expect(await ask()).toEqual({ user: { name: "Ann 3" } });
  expect(warnings).toEqual([]);
});
