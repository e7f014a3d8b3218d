/** The commands of a process with a server whose cached field returns a list of entities, on the memory store. */
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "../../src/index.js";
import type { Setup } from "../fleet.js";

const typeDefs = /* GraphQL */ `
  type Query { movies(n: Int!): [Movie!] @cached(maxAge: 3600) }
  type Movie { id: ID! title: String year: Int votes: Int rating: Float director: Director }
  type Director { id: ID! name: String }
`;
const movies = (_: unknown, { n }: { n: number }) =>
  Array.from({ length: n }, (_unused, id) => ({
    id,
    title: `Film number ${id}`,
    year: 1950 + (id % 70),
    votes: 37 * id,
    rating: (id % 100) / 10,
    director: { id: id % 200, name: `Director number ${id % 200}` },
  }));

export const [WITHOUT, WITH] = ["without entity tags", "with entity tags"] as const;

/** The CPU time of the process, in microseconds: that of other programs of the machine does not count. */
async function cpuOf(work: () => Promise<unknown>): Promise<number> {
  const start = process.cpuUsage();
  await work();
  const { user, system } = process.cpuUsage(start);
  return user + system;
}

export async function open({ contender }: Setup) {
  const cache = createCache({
    defaultScope: "PUBLIC",
    logger: { info: () => undefined, warn: () => undefined },
    defaults: { earlyRefresh: 0 },
  });
  const schema = applyCached(
    makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers: { Query: { movies } } }),
    cache,
    { entityTags: contender === WITH },
  );
  /** Selects nothing of the films but one name, so that execution costs as little as possible. */
  const ask = async (n: number): Promise<void> => {
    const { errors } = await graphql({ schema, source: `{ movies(n: ${n}) { __typename } }`, contextValue: {} });
    if (errors !== undefined) throw errors[0] as Error;
  };
  /** Returns what the load of a list of `n` films costs until it is stored, and what a hit does. */
  const measure = async ({ n }: { readonly n: number }) => {
    await cache.invalidate({ coordinate: "Query.movies", args: { n } });
    const load = await cpuOf(async () => {
      await ask(n);
      for (let turn = 0; turn < 4; turn++) await new Promise((resolve) => setImmediate(resolve));
    });
    // The first hit reads the tags of the value; the process then remembers them.
    await ask(n);
    return { load, hit: await cpuOf(() => ask(n)) };
  };
  return { measure };
}

export type EntityCommands = Awaited<ReturnType<typeof open>>;
