import { PGlite } from "@electric-sql/pglite";
import { invalidateFromOutbox, outboxSql } from "@graphql-cached/postgres";
import { makeExecutableSchema } from "@graphql-tools/schema";
import type { GraphQLSchema } from "graphql";
import { applyCached, type Cache, cachedTypeDefs, createCache } from "graphql-cached";

/** What migrations contain. The list needs a tag of its own, since a new film is in no cached list yet. */
const MIGRATIONS = `
  CREATE TABLE directors (id int PRIMARY KEY, name text NOT NULL);
  CREATE TABLE movies (id int PRIMARY KEY, title text NOT NULL, director_id int REFERENCES directors);
  ${outboxSql()}
  SELECT graphql_cached.watch_table('directors', 'Director:{id}');
  SELECT graphql_cached.watch_table('movies', 'Movie:{id}', 'Filmography:{director_id}');
  INSERT INTO directors VALUES (1, 'Fritz Lang'), (2, 'F. W. Murnau');
  INSERT INTO movies VALUES (1, 'Metropolis', 1), (2, 'M', 1), (3, 'Nosferatu', 2);
`;

const typeDefs = `#graphql
  type Query {
    movie(id: Int!): Movie @cached(maxAge: 3600, tags: ["Movie:{$args.id}"])
    director(id: Int!): Director @cached(maxAge: 3600, tags: ["Director:{$args.id}"])
  }
  type Movie {
    id: Int!
    title: String!
  }
  type Director {
    id: Int!
    name: String!
    movies: [Movie!]! @cached(maxAge: 3600, tags: ["Filmography:{$source.id}", "Movie:{$result[].id}"])
  }
`;

export interface Films {
  readonly schema: GraphQLSchema;
  readonly cache: Cache;
  readonly db: PGlite;
  close(): Promise<void>;
}

/** Opens a database, a schema on it that caches for an hour, and the consumer. `onLoad` is called before every query. */
export async function openFilms(onLoad: (what: string) => void): Promise<Films> {
  const db = await PGlite.create();
  await db.exec(MIGRATIONS);
  const rows = async (what: string, sql: string, id: number): Promise<object[]> => {
    onLoad(`${what} ${id}`);
    return (await db.query<object>(sql, [id])).rows;
  };
  const resolvers = {
    Query: {
      movie: async (_: unknown, { id }: { id: number }) =>
        (await rows("movie", "SELECT id, title FROM movies WHERE id = $1", id))[0],
      director: async (_: unknown, { id }: { id: number }) =>
        (await rows("director", "SELECT id, name FROM directors WHERE id = $1", id))[0],
    },
    Director: {
      movies: ({ id }: { id: number }) =>
        rows("filmography", "SELECT id, title FROM movies WHERE director_id = $1 ORDER BY id", id),
    },
  };
  const cache = createCache({ defaultScope: "PUBLIC" });
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, typeDefs], resolvers }), cache);
  const consumer = invalidateFromOutbox({
    cache,
    database: db,
    listen: (channel, wake) => db.listen(channel, wake),
  });
  return {
    schema,
    cache,
    db,
    close: async () => {
      await consumer.stop();
      await cache.close();
      await db.close();
    },
  };
}
