import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, type Cache, type CacheEvent, cachedTypeDefs, createCache } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  type Query {
    posts: [Post!]! @cached(maxAge: 60, subtree: true, tags: ["Post:{$result[].id}"])
  }
  type Post {
    id: ID!
    title: String
    author: String
  }
`;

type Observed = Extract<CacheEvent, { name: "read.observed" }>;

/** A server whose posts are observed, with what the cache would have done. */
async function startObserved() {
  const observed: Pick<Observed, "outcome" | "comparison">[] = [];
  const loads = { posts: 0, author: 0 };
  const site = { author: "Ann" };
  const resolvers = {
    Query: {
      posts() {
        loads.posts++;
        return [{ id: 1, title: "One" }];
      },
    },
    Post: {
      author() {
        loads.author++;
        return site.author;
      },
    },
  };
  const cache = createCache({
    defaults: { jitter: 0, earlyRefresh: 0 },
    logger: { info: () => undefined, warn: () => undefined },
    onEvent(event) {
      if (event.name === "read.observed") observed.push({ outcome: event.outcome, comparison: event.comparison });
    },
  });
  onTestFinished(() => cache.close());
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  await cache.setMode("observe", { coordinate: "Query.posts" });
  const document = parse("{ posts { title author } }");
  const ask = async (): Promise<unknown> => {
    const { data } = await cache.execute({ schema, document, contextValue: {} }, false);
    await cache.settled();
    return data;
  };
  return { cache, ask, loads, observed, site };
}

const posts = (author: string) => ({ posts: [{ title: "One", author }] });

describe("a subtree whose field has the mode observe", () => {
  it("is stored and compared, while every answer is that of the resolvers", async () => {
    const { ask, loads, observed, site } = await startObserved();
    expect(await ask()).toEqual(posts("Ann"));
    expect(await ask()).toEqual(posts("Ann"));
    site.author = "Ben";
    expect(await ask()).toEqual(posts("Ben"));
    // A difference counts once it is certain that nothing has invalidated the entry.
    await expect.poll(() => observed).toHaveLength(3);
    expect(observed).toEqual([
      { outcome: "miss", comparison: "none" },
      { outcome: "hit", comparison: "same" },
      { outcome: "hit", comparison: "different" },
    ]);
    expect(loads).toEqual({ posts: 3, author: 3 });
  });

  it.each([
    ["a tag of its result", (cache: Cache) => cache.invalidateTags(["Post:1"])],
    ["its key", (cache: Cache) => cache.invalidate({ coordinate: "Query.posts", args: {} })],
  ])("is not compared after %s was invalidated", async (_what, invalidate) => {
    const { cache, ask, observed, site } = await startObserved();
    await ask();
    site.author = "Ben";
    await invalidate(cache);
    expect(await ask()).toEqual(posts("Ben"));
    expect(observed).toEqual([
      { outcome: "miss", comparison: "none" },
      { outcome: "miss", comparison: "none" },
    ]);
  });

  it("serves what it has stored meanwhile, once the mode is on", async () => {
    const { cache, ask, loads } = await startObserved();
    await ask();
    await cache.setMode("on", { coordinate: "Query.posts" });
    expect(await ask()).toEqual(posts("Ann"));
    expect(loads).toEqual({ posts: 1, author: 1 });
  });
});
