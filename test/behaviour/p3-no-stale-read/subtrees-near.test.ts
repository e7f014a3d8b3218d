import { FakeClock } from "@graphql-cached/testing";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache, memoryStore } from "graphql-cached";
import type { Store } from "graphql-cached/store";
import { expect, it, onTestFinished } from "vitest";

const typeDefs = /* GraphQL */ `
  type Query {
    shelf: Shelf @cached(maxAge: 60, subtree: true)
    films: [Film!]!
  }
  type Shelf { films: [Film!]! }
  type Film { id: ID! title: String @cached(maxAge: 60, tags: ["Film:{$source.id}"]) }
`;
const IDS = ["1", "2", "3"];

/** Processes that share a store, and a source whose titles have a version. */
function startFleet() {
  const clock = new FakeClock();
  const inner = memoryStore({ clock });
  const source = { version: 1, loads: 0 };
  const start = () => {
    /** Names in each read of the store; called before each request for leases; messages about invalidations are lost. */
    const seen = { reads: [] as number[], beforeAcquire: async (): Promise<void> => undefined };
    const store = new Proxy(inner, {
      get(target, property) {
        if (property === "watchClock") return undefined;
        const value: unknown = Reflect.get(target, property, target);
        if (typeof value !== "function") return value;
        return (...args: unknown[]): unknown => {
          if (property === "read") seen.reads.push((args[0] as readonly unknown[]).length);
          const call = () => value.apply(target, args) as unknown;
          return property === "acquire" ? seen.beforeAcquire().then(call) : call();
        };
      },
    }) as Store;
    const cache = createCache({
      store,
      prefix: "subtrees-near",
      nearCache: {},
      defaults: { jitter: 0, earlyRefresh: 0 },
      logger: { info: () => undefined, warn: () => undefined },
      testing: { clock },
    });
    onTestFinished(() => cache.close());
    const films = () => IDS.map((id) => ({ id }));
    const title = ({ id }: { id: string }): string => {
      source.loads++;
      return `title ${id} version ${source.version}`;
    };
    const resolvers = { Query: { films, shelf: () => ({ films: films() }) }, Film: { title } };
    const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
    const ask = async (query: string): Promise<string[]> => {
      const { data, errors } = await cache.execute({ schema, document: parse(query), contextValue: {} }, false);
      if (errors !== undefined) throw errors[0] as Error;
      return [...JSON.stringify(data).matchAll(/version (\d)/g)].map(([, version]) => version as string);
    };
    return {
      cache,
      seen,
      fields: () => ask("{ films { title } }"),
      subtree: () => ask("{ shelf { films { title } } }"),
    };
  };
  return { clock, source, start };
}

it("reads the parts of a subtree from the near cache while it is built", async () => {
  const { source, start } = startFleet();
  const { seen, fields, subtree } = start();
  await fields();
  await fields();
  seen.reads.length = 0;
  expect(await subtree()).toEqual(["1", "1", "1"]);
  expect(source.loads).toBe(3);
  // The names of the subtree and of its field. None is that of a part.
  expect(Math.max(...seen.reads)).toBe(1);
});

it("builds a subtree from parts in the first half of their life, which it loads again otherwise", async () => {
  const { clock, source, start } = startFleet();
  const { fields, subtree } = start();
  await fields();
  await clock.advance(29_000);
  await subtree();
  expect(source.loads).toBe(3);
  const other = startFleet();
  const late = other.start();
  await late.fields();
  await other.clock.advance(31_000);
  await late.subtree();
  expect(other.source.loads).toBe(6);
});

it("stores no subtree with parts that another process has invalidated since it knew the lease, although the near cache has them", async () => {
  const { source, start } = startFleet();
  const [one, other] = [start(), start()];
  await one.fields();
  await one.fields();
  let leases = 0;
  one.seen.beforeAcquire = async () => {
    // The first one is that of the subtree, the second that of its field.
    if (++leases !== 2) return;
    source.version = 2;
    await other.cache.invalidateTags(["Film:2"]);
  };
  // The one that builds it has not heard of the invalidation.
  expect(await one.subtree()).toEqual(["1", "1", "1"]);
  expect(await other.subtree()).toEqual(["1", "2", "1"]);
  expect(await one.subtree()).toEqual(["1", "2", "1"]);
});
