import { FakeClock, gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type ExecutionResult, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { expect, it, onTestFinished } from "vitest";

const typeDefs = `
  type Query { post(id: ID!): Post @cached(maxAge: 60, staleIfError: 60, subtree: true)
               posts: [Post!]! @cached(maxAge: 60, subtree: true) }
  type Post { id: ID! author: String @cached(maxAge: 60) }
`;

/** A server with such limits, and its sources. */
function serverWith(loads: { readonly maxConcurrentLoads?: number; readonly breakerThreshold?: number }) {
  const clock = new FakeClock();
  const cache = createCache({
    testing: { clock },
    loads: { errorBackoffMs: 10, ...loads },
    logger: { info: () => undefined, warn: () => undefined },
  });
  onTestFinished(() => cache.close());
  const authors = gate();
  const counts = { posts: 0, authors: 0, running: 0, most: 0, isBroken: false };
  const resolvers = {
    Query: {
      post: (_: unknown, { id }: { readonly id: string }) => {
        counts.posts++;
        if (counts.isBroken) throw new Error("the source is broken");
        return { id };
      },
      posts: () => Array.from({ length: 10 }, (_, id) => ({ id })),
    },
    Post: {
      author: async () => {
        counts.authors++;
        counts.most = Math.max(counts.most, ++counts.running);
        await authors.passed;
        counts.running--;
        return "Ann";
      },
    },
  };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  const ask = (query: string): Promise<ExecutionResult> =>
    cache.execute({ schema, document: parse(query), contextValue: {} }, false);
  return { clock, authors, counts, ask };
}

it("limits the concurrent loads of a field below subtrees as it does without them", async () => {
  const { authors, counts, ask } = serverWith({ maxConcurrentLoads: 2 });
  const asked = ask("{ posts { author } }");
  await new Promise(setImmediate);
  authors.open();
  expect((await asked).data).toEqual({ posts: Array(10).fill({ author: "Ann" }) });
  expect(counts).toMatchObject({ authors: 10, most: 2 });
});

it("counts a failure below a subtree once for the breaker of the source", async () => {
  const { clock, counts, ask } = serverWith({ breakerThreshold: 3 });
  counts.isBroken = true;
  for (let nth = 0; nth < 2; nth++) {
    await ask(`{ post(id: ${nth}) { id } }`);
    await clock.advance(100);
  }
  counts.isBroken = false;
  const { data } = await ask("{ post(id: 9) { id } }");
  expect(data).toEqual({ post: { id: "9" } });
});

it("lets the probe of an open breaker through a build to its source", async () => {
  const { clock, counts, ask } = serverWith({ breakerThreshold: 1 });
  counts.isBroken = true;
  await ask("{ post(id: 1) { id } }");
  counts.isBroken = false;
  await clock.advance(60_000);
  expect((await ask("{ post(id: 2) { id } }")).data).toEqual({ post: { id: "2" } });
});
