import type { Database, Row } from "./database.js";

/** What every resolver gets of a request. */
export interface SiteContext {
  readonly userId: string | undefined;
}

/** Loads films by id for one request. */
export type MovieLoader = (context: SiteContext) => {
  load(id: number): Promise<Row | null>;
  loadMany(ids: readonly number[]): Promise<(Row | null | Error)[]>;
};

const MOVIE = 'id, title, year, genre, director_id AS "directorId"';

/** Films by id, in the order asked for; null where there is none. */
export async function moviesById(database: Database, ids: readonly number[]): Promise<(Row | null)[]> {
  const rows = await database.query(`SELECT ${MOVIE} FROM movies WHERE id = ANY($1::int[])`, [ids]);
  const byId = new Map(rows.map((row) => [row.id, row]));
  return ids.map((id) => byId.get(id) ?? null);
}

/**
 * The statement of the homepage, the one that everybody asks for at once: each film's average without its lowest and highest twentieth, so that
 * campaigns do not count, drawn towards the median of all ratings the more, the fewer it has. It sorts all ratings, twice.
 */
export const TOP_SQL = `WITH everything AS (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY stars) AS median FROM ratings),
  ranked AS (SELECT movie_id, stars, ntile(20) OVER (PARTITION BY movie_id ORDER BY stars) AS part FROM ratings)
  SELECT movie_id AS id, (sum(stars) + $2 * max(everything.median)) / (count(*) + $2) AS score
  FROM ranked, everything WHERE part BETWEEN 2 AND 19 GROUP BY movie_id ORDER BY score DESC, movie_id LIMIT $1`;

/** `count`, if it is a length a list may have. */
function lengthOf(name: string, count: number): number {
  if (count < 1 || count > 100) throw new RangeError(`${name} must be from 1 to 100, ${count} came`);
  return count;
}

/** The site's resolvers. They know nothing of the cache: where it stands is said in the schema. */
export function siteResolvers(database: Database, movies: MovieLoader, pull: number): object {
  const many = async (ids: readonly Row[], context: SiteContext): Promise<Row[]> => {
    const found = await movies(context).loadMany(ids.map((row) => Number(row.id)));
    return found.filter((movie): movie is Row => movie !== null && !(movie instanceof Error));
  };
  const viewer = ({ userId }: SiteContext): Row | null => (userId === undefined ? null : { id: userId });
  return {
    Query: {
      top: async (_: unknown, { n }: { n: number }, context: SiteContext) =>
        many(await database.query(TOP_SQL, [lengthOf("n", n), pull]), context),
      movie: (_: unknown, { id }: { id: string }, context: SiteContext) => movies(context).load(Number(id)),
      trending: async (_: unknown, { genre }: { genre: string }, context: SiteContext) =>
        many(
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
        if (stars < 1 || stars > 10) throw new RangeError(`stars must be from 1 to 10, ${stars} came`);
        await database.query("INSERT INTO ratings (movie_id, stars) VALUES ($1, $2)", [movie, stars]);
        return (await moviesById(database, [Number(movie)]))[0] ?? null;
      },
      addToWatchlist: async (_: unknown, { movie }: { movie: string }, context: SiteContext) => {
        if (context.userId === undefined) throw new Error("say who you are with an x-user header");
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
        many(
          await database.query("SELECT id FROM movies WHERE genre = $1 AND id <> $2 ORDER BY id LIMIT $3", [
            genre,
            id,
            lengthOf("first", first),
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
        many(
          await database.query("SELECT movie_id AS id FROM watchlist WHERE user_id = $1 ORDER BY movie_id", [id]),
          context,
        ),
    },
  };
}
