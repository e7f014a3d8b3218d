/** The site that the stampede visits: a homepage whose SQL takes 0.3 s, and pages of single films. */
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { makeExecutableSchema } from "@graphql-tools/schema";
import DataLoader from "dataloader";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import type { Store } from "graphql-cached/store";
import type { Database, Row } from "./database.js";

/** How many median ratings are added to each film on the homepage, so that a few high ratings do not dominate it. */
export const MEDIAN_WEIGHT = 500;

/**
 * The query of the homepage: the average of each film without its lowest and highest twentieth, which makes
 * rating campaigns ineffective, weighted towards the median of all ratings for films with few ratings. It
 * sorts all ratings, twice.
 */
export const TOP_SQL = `WITH everything AS (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY stars) AS median FROM ratings),
  ranked AS (SELECT movie_id, stars, ntile(20) OVER (PARTITION BY movie_id ORDER BY stars) AS part FROM ratings)
  SELECT movie_id AS id, (sum(stars) + $2 * max(everything.median)) / (count(*) + $2) AS score
  FROM ranked, everything WHERE part BETWEEN 2 AND 19 GROUP BY movie_id ORDER BY score DESC, movie_id LIMIT $1`;

const typeDefs = /* GraphQL */ `
  type Query {
    top(n: Int! = 10): [Movie!]! @cached(maxAge: 60, staleWhileRevalidate: 300, tags: ["Movie:{$result[].id}"])
    movie(id: ID!): Movie
  }
  type Movie {
    id: ID!
    title: String!
    similar(first: Int! = 5): [Movie!]! @cached(maxAge: 600, tags: ["Movie:{$result[].id}"])
  }
`;

export interface RunningSite {
  readonly url: string;
  /** Invalidates tags in the cache of this process. */
  invalidate(tags: readonly string[]): Promise<void>;
  close(): Promise<void>;
}

/** Starts the site on a free port. The store `none` is for comparison: there is no cache then. */
export async function startSite(database: Database, store: Store | "none", prefix: string): Promise<RunningSite> {
  const cache = store === "none" ? undefined : createCache<object>({ defaultScope: "PUBLIC", store, prefix });
  const server = new ApolloServer<object>({
    schema: siteSchema(database, cache),
    plugins: cache === undefined ? [] : [cachedPlugin(cache)],
  });
  const { url } = await startStandaloneServer(server, {
    listen: { port: 0, host: "127.0.0.1" },
    context: async () => ({}),
  });
  return {
    url,
    invalidate: async (tags) => cache?.invalidateTags(tags),
    async close() {
      await server.stop();
      await cache?.close();
    },
  };
}

function siteSchema(database: Database, cache: Cache<object> | undefined): GraphQLSchema {
  const movies = movieLoader(database, cache);
  const loadMovies = async (ids: readonly Row[], context: object): Promise<Row[]> =>
    (await Promise.all(ids.map(({ id }) => movies(context).load(Number(id))))).filter((movie) => movie !== null);
  const resolvers = {
    Query: {
      top: async (_: unknown, { n }: { n: number }, context: object) =>
        loadMovies(await database.query(TOP_SQL, [n, MEDIAN_WEIGHT]), context),
      movie: (_: unknown, { id }: { id: string }, context: object) => movies(context).load(Number(id)),
    },
    Movie: {
      similar: async ({ id, genre }: Row, { first }: { first: number }, context: object) => {
        const sql = "SELECT id FROM movies WHERE genre = $1 AND id <> $2 ORDER BY id LIMIT $3";
        return loadMovies(await database.query(sql, [genre, id, first]), context);
      },
    },
  };
  const schema = makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers });
  return cache === undefined ? schema : applyCached(schema, cache);
}

type MovieLoader = (context: object) => { load(id: number): Promise<Row | null> };

/** Loads films by id: shared by all requests and processes with the cache, within one request without it. */
function movieLoader(database: Database, cache: Cache<object> | undefined): MovieLoader {
  const batch = async (ids: readonly number[]): Promise<(Row | null)[]> => {
    const rows = await database.query("SELECT id, title, genre FROM movies WHERE id = ANY($1::int[])", [ids]);
    const byId = new Map(rows.map((row) => [row.id, row]));
    return ids.map((id) => byId.get(id) ?? null);
  };
  if (cache !== undefined) return cache.loader({ name: "Movie", batch, maxAge: 300, tags: (id) => [`Movie:${id}`] });
  const loaders = new WeakMap<object, DataLoader<number, Row | null>>();
  return (context) => {
    const loader = loaders.get(context) ?? new DataLoader(batch);
    loaders.set(context, loader);
    return loader;
  };
}
