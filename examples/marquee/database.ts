/**
 * The database of the demo. It is simulated, so that the demo needs nothing installed and starts at once: the
 * statements are recognized by their text, wait as long as they might in a real database, and are answered from
 * memory. As a pool of connections does, it runs ten statements at a time; the others wait for their turn.
 */
import { setTimeout as pause } from "node:timers/promises";
import { FILMS, FIRST_STARS, FIRST_VOTES, type Film, PEOPLE, type Person, WATCHED } from "./films.js";

export const CONNECTIONS = 10;

/** What the site uses of a database, as with `pg`. */
export interface Database {
  query<Row>(sql: string, params: readonly Param[]): Promise<Row[]>;
}

export type Param = string | number;

export interface Statement {
  readonly sql: string;
  readonly tookMs: number;
}

export const TOP_FILMS = "SELECT film_id AS id FROM ratings GROUP BY film_id ORDER BY avg(stars) DESC LIMIT $1";
export const FILMS_BY_ID = 'SELECT id, title, year, director_id AS "directorId" FROM films WHERE id IN ($1, …)';
export const RATINGS_BY_FILM =
  "SELECT film_id AS id, avg(stars) AS average FROM ratings WHERE film_id IN ($1, …) GROUP BY film_id";
export const PEOPLE_BY_ID = "SELECT id, name FROM people WHERE id IN ($1, …)";
export const WATCHED_BY_USER = "SELECT film_id AS id FROM watched WHERE user_id = $1";
export const INSERT_RATING = "INSERT INTO ratings (film_id, stars) VALUES ($1, $2)";

/** Opens the database. `onStatement` is called with every statement that has run. */
export function simulatedDatabase(onStatement: (statement: Statement) => void): Database {
  const films = new Map<Param, Film>(FILMS.map((film) => [film.id, film]));
  const people = new Map<Param, Person>(PEOPLE.map((person) => [person.id, person]));
  const ratings = new Map<Param, { sum: number; votes: number }>(
    FIRST_STARS.map(([id, sum]) => [id, { sum, votes: FIRST_VOTES }]),
  );
  const averageOf = (id: Param): number => {
    const { sum, votes } = ratings.get(id) ?? { sum: 0, votes: 1 };
    return sum / votes;
  };
  /** How long each statement takes, and its rows. */
  const statements: Record<string, readonly [tookMs: number, rows: (params: readonly Param[]) => readonly object[]]> = {
    [TOP_FILMS]: [
      80,
      ([limit]) =>
        FILMS.toSorted((one, other) => averageOf(other.id) - averageOf(one.id))
          .slice(0, Number(limit))
          .map(({ id }) => ({ id })),
    ],
    [FILMS_BY_ID]: [25, (ids) => ids.flatMap((id) => films.get(id) ?? [])],
    [RATINGS_BY_FILM]: [40, (ids) => ids.filter((id) => ratings.has(id)).map((id) => ({ id, average: averageOf(id) }))],
    [PEOPLE_BY_ID]: [20, (ids) => ids.flatMap((id) => people.get(id) ?? [])],
    [WATCHED_BY_USER]: [30, ([user]) => (WATCHED[String(user)] ?? []).map((id) => ({ id }))],
    [INSERT_RATING]: [
      20,
      ([id = 0, stars]) => {
        const { sum, votes } = ratings.get(id) ?? { sum: 0, votes: 0 };
        ratings.set(id, { sum: sum + Number(stars), votes: votes + 1 });
        return [];
      },
    ],
  };

  let free = CONNECTIONS;
  const waiting: (() => void)[] = [];
  return {
    async query(sql, params) {
      const [tookMs, rows] = statements[sql] ?? [];
      if (tookMs === undefined || rows === undefined) throw new Error(`the simulated database does not know: ${sql}`);
      if (free > 0) free--;
      else await new Promise<void>((resolve) => waiting.push(resolve));
      try {
        await pause(tookMs);
        onStatement({ sql, tookMs });
        // A copy, as from a network.
        return JSON.parse(JSON.stringify(rows(params)));
      } finally {
        // The connection goes to the statement that has waited longest.
        const next = waiting.shift();
        if (next === undefined) free++;
        else next();
      }
    },
  };
}
