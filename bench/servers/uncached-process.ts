/** The commands of a process with servers whose query has no cached field. */
import { ApolloServer } from "@apollo/server";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type ExecutionArgs, execute, type GraphQLSchema, parse } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "../../src/index.js";
import { cachedPlugin } from "../../src/servers/apollo/index.js";

const FILMS = Array.from({ length: 100 }, (_, id) => ({ id, title: `Film ${id}`, year: 1950 + (id % 70) }));
const TYPES = /* GraphQL */ `
  type Query { films: [Film!]! top: [Film!]! @cached(maxAge: 60) best: Person @cached(maxAge: 60) }
  type Film { id: ID! title: String! year: Int! slug: String! director: Person! rating: Float @cached(maxAge: 60) }
  type Person { id: ID! name: String! }
`;
const QUERY = "{ films { id title year slug director { id name } } }";
const DOCUMENT = parse(QUERY);
/** Requests per sample: what disturbs a machine disturbs long samples as much as short ones, so there are many short ones. */
const TIMES = 5;
const WARM_UP_ROUNDS = 40;

function filmSchema(): GraphQLSchema {
  const resolvers = {
    Query: { films: async () => FILMS, top: () => FILMS, best: () => null },
    Film: {
      slug: ({ title }: { title: string }) => title.toLowerCase(),
      director: async ({ id }: { id: number }) => ({ id, name: `Person ${id}` }),
      rating: () => 5,
    },
  };
  return makeExecutableSchema({ typeDefs: [cachedTypeDefs, TYPES], resolvers });
}

/** Servers without the cache, the same again, which shows the noise, with the cache, and with responses, of which this is none. */
export const SERVERS = ["no cache", "no cache, repeated", "graphql-cached", "graphql-cached, responses"] as const;

export async function open() {
  /** Returns how long requests take in each round, by server and what executes them. The server with number `first` is made first. */
  const measure = async ({ rounds, first }: { readonly rounds: number; readonly first: number }) => {
    const work: [string, () => Promise<unknown>][] = [];
    for (let nth = 0; nth < SERVERS.length; nth++) {
      const name = SERVERS[(first + nth) % SERVERS.length] as string;
      const cache = createCache({ defaultScope: "PUBLIC" });
      const isCached = name.startsWith("graphql-cached");
      const responses = name === "graphql-cached, responses";
      const schema = isCached ? applyCached(filmSchema(), cache) : filmSchema();
      const server = new ApolloServer({ schema, plugins: isCached ? [cachedPlugin(cache, { responses })] : [] });
      await server.start();
      const args = (): ExecutionArgs => ({ schema, document: DOCUMENT, contextValue: {} });
      work.push([`${name} graphql-js`, async () => (responses ? cache.execute(args()) : execute(args()))]);
      work.push([`${name} Apollo`, () => server.executeOperation({ query: QUERY }, { contextValue: {} })]);
    }
    const samples: Record<string, number>[] = [];
    for (let round = -WARM_UP_ROUNDS; round < rounds; round++) {
      const sample: Record<string, number> = {};
      // Each round begins with the next one. In reverse order every other time, the first and the last would follow themselves.
      work.push(...work.splice(0, 1));
      for (const [name, run] of work) {
        const startedAt = performance.now();
        for (let time = 0; time < TIMES; time++) await run();
        sample[name] = (performance.now() - startedAt) / TIMES;
      }
      if (round >= 0) samples.push(sample);
    }
    return samples;
  };
  return { measure };
}

export type UncachedCommands = Awaited<ReturnType<typeof open>>;
