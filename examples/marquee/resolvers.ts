import type { Database, Row } from "./database.js";

/** The context of a request. */
export interface SiteContext {
  readonly userId: string | undefined;
}

/** Returns the film loader of a request. */
export type MovieLoader = (context: SiteContext) => {
  load(id: number): Promise<Row | null>;
  loadMany(ids: readonly number[]): Promise<(Row | null | Error)[]>;
};

const MOVIE = 'id, title, year, genre, director_id AS "directorId"';

/** Returns films in the order of `ids`, with null for unknown ids. */
export async function moviesById(database: Database, ids: readonly number[]): Promise<(Row | null)[]> {
  const rows = await database.query(`SELECT ${MOVIE} FROM movies WHERE id = ANY($1::int[])`, [ids]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => byId.get(id) ?? null);
}

/**
 * The query of the homepage: the average of each film without its lowest and highest twentieth, which makes
 * rating campaigns ineffective, weighted towards the median of all ratings for films with few ratings. It
 * sorts all ratings, twice.
 */
export const TOP_SQL = `WITH everything AS (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY stars) AS median FROM ratings),
  ranked AS (SELECT movie_id, stars, ntile(20) OVER (PARTITION BY movie_id ORDER BY stars) AS part FROM ratings)
  SELECT movie_id AS id, (sum(stars) + $2 * max(everything.median)) / (count(*) + $2) AS score
  FROM ranked, everything WHERE part BETWEEN 2 AND 19 GROUP BY movie_id ORDER BY score DESC, movie_id LIMIT $1`;

/** Returns `count`, or throws a RangeError if it is not from 1 to 100. */
function checkLength(name: string, count: number): number {
  if (count < 1 || count > 100) throw new RangeError(`${name} must be from 1 to 100, got ${count}`);
  return count;
}

/** The resolvers of the site. They do not refer to the cache; the schema defines what is cached. */
export function siteResolvers(database: Database, movies: MovieLoader, medianWeight: number): object {
  const loadMovies = async (ids: readonly Row[], context: SiteContext): Promise<Row[]> => {
    const loaded = await movies(context).loadMany(ids.map((row) => Number(row.id)));
    return loaded.filter((movie): movie is Row => movie !== null && !(movie instanceof Error));
  };
  const viewer = ({ userId }: SiteContext): Row | null => (userId === undefined ? null : { id: userId });
  return {
    Query: {
      top: async (_: unknown, { n }: { n: number }, context: SiteContext) =>
        loadMovies(await database.query(TOP_SQL, [checkLength("n", n), medianWeight]), context),
      movie: (_: unknown, { id }: { id: string }, context: SiteContext) => movies(context).load(Number(id)),
      trending: async (_: unknown, { genre }: { genre: string }, context: SiteContext) =>
        loadMovies(
          await database.query(
            "SELECT m.id FROM movies m JOIN ratings r ON r.movie_id = m.id WHERE m.genre = $1 GROUP BY m.id ORDER BY count(*) DESC LIMIT 10",
            [genre],
          ),
          context,
        ),
      person: async (_: unknown, { id }: { id: string }) =>
        (await database.query("SELECT id, name FROM people WHERE id = $1", [id]))[0] ?? null,
      me: (_: unknown, __: unknown, context: SiteContext) => viewer(context),
    },
    Mutation: {
      rate: async (_: unknown, { movie, stars }: { movie: string; stars: number }) => {
        if (stars < 1 || stars > 10) throw new RangeError(`stars must be from 1 to 10, got ${stars}`);
        await database.query("INSERT INTO ratings (movie_id, stars) VALUES ($1, $2)", [movie, stars]);
        return (await moviesById(database, [Number(movie)]))[0] ?? null;
      },
      addToWatchlist: async (_: unknown, { movie }: { movie: string }, context: SiteContext) => {
        if (context.userId === undefined) throw new Error("not signed in: set the x-user header");
        await database.query("INSERT INTO watchlist VALUES ($1, $2) ON CONFLICT DO NOTHING", [context.userId, movie]);
        return viewer(context);
      },
    },
    Movie: {
      stars: async ({ id }: Row) => {
        const [row] = await database.query("SELECT avg(stars)::float8 AS stars FROM ratings WHERE movie_id = $1", [id]);
        return row?.stars ?? null;
      },
      director: async ({ directorId }: Row) =>
        directorId === null
          ? null
          : ((await database.query("SELECT id, name FROM people WHERE id = $1", [directorId]))[0] ?? null),
      similar: async ({ id, genre }: Row, { first }: { first: number }, context: SiteContext) =>
        loadMovies(
          await database.query("SELECT id FROM movies WHERE genre = $1 AND id <> $2 ORDER BY id LIMIT $3", [
            genre,
            id,
            checkLength("first", first),
          ]),
          context,
        ),
    },
    Person: {
      filmography: ({ id }: Row) =>
        database.query(`SELECT ${MOVIE} FROM movies WHERE director_id = $1 ORDER BY year, id`, [id]),
    },
    Viewer: {
      watchlist: async ({ id }: Row, _: unknown, context: SiteContext) =>
        loadMovies(
          await database.query("SELECT movie_id AS id FROM watchlist WHERE user_id = $1 ORDER BY movie_id", [id]),
          context,
        ),
    },
  };
}
