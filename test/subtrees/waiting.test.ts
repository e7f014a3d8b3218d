import { FakeClock, gate } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type ExecutionResult, type GraphQLSchema, parse } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import { describe, expect, it, onTestFinished } from "vitest";

interface Process {
  readonly cache: Cache;
  readonly schema: GraphQLSchema;
  /** How many loads it has begun. */
  loads: number;
}

const typeDefs = `
  type Query { posts: [Post!]! @cached(maxAge: 60, subtree: true) }
  type Post { id: ID! title: String! author: String! @cached(maxAge: 60) }
`;

const ask = ({ cache, schema }: Process, query: string): Promise<ExecutionResult> =>
  cache.execute({ schema, document: parse(query), contextValue: {} }, false);

/** Two processes whose loads of posts, and of authors, wait for gates. */
function twoProcesses() {
  const clock = new FakeClock();
  const store = memoryStore();
  const [posts, authors] = [gate(), gate()];
  const loads = { posts: 0, authors: 0 };
  const resolvers = {
    Query: {
      posts: async () => {
        loads.posts++;
        await posts.passed;
        return [{ id: "1", title: "first" }];
      },
    },
    Post: {
      author: async () => {
        loads.authors++;
        await authors.passed;
        return "Ann";
      },
    },
  };
  const start = (): Process => {
    const cache = createCache({
      store,
      prefix: "waiting",
      testing: { clock },
      onEvent: ({ name }) => name === "load.started" && process.loads++,
      logger: { info: () => undefined, warn: () => undefined },
    });
    onTestFinished(() => cache.close());
    const source = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });
    const process = { cache, schema: applyCached(source, cache), loads: 0 };
    return process;
  };
  return { clock, loads, posts, authors, one: start(), other: start() };
}

describe("A build", () => {
  it("waits for a load of the field's own entry in another process for as long as a request would", async () => {
    const { clock, loads, posts, authors, one, other } = twoProcesses();
    authors.open();
    const first = ask(one, "{ posts { title } }");
    await clock.advance(10);
    const second = ask(other, "{ posts { id } }");
    await clock.advance(2_000);
    expect(loads.posts).toBe(1);
    posts.open();
    await clock.advance(2_000);
    expect(await first).toEqual({ data: { posts: [{ title: "first" }] } });
    expect(await second).toEqual({ data: { posts: [{ id: "1" }] } });
    expect(loads.posts).toBe(1);
  });

  it("waits for a load of an entry below the field in another process for as long as a request would", async () => {
    const { clock, loads, posts, authors, one, other } = twoProcesses();
    posts.open();
    const first = ask(one, "{ posts { author } }");
    await clock.advance(10);
    const second = ask(other, "{ posts { id author } }");
    await clock.advance(2_000);
    authors.open();
    await clock.advance(2_000);
    expect(await first).toEqual({ data: { posts: [{ author: "Ann" }] } });
    expect(await second).toEqual({ data: { posts: [{ id: "1", author: "Ann" }] } });
    expect(loads).toEqual({ posts: 1, authors: 1 });
    // Both were stored.
    const started = one.loads + other.loads;
    await ask(one, "{ posts { id author } }");
    await ask(other, "{ posts { author } }");
    expect(one.loads + other.loads).toBe(started);
  });
});
