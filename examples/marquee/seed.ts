import { readFileSync } from "node:fs";

/** To be raised when what is built changes: a database kept from before is then built again. */
export const SEED_VERSION = 2;

/** One film of the site, as the seed has it. */
export interface SeedMovie {
  readonly id: number;
  readonly title: string;
  readonly year: number | null;
  readonly genre: string | null;
  readonly director: string | null;
  /** Out of 10; where the data has none, a middling one. */
  readonly rating: number;
  readonly votes: number;
}

/** The films of the npm package vega-datasets, most voted first. Titles that are numbers become text, films without a title are left out. */
export function readMovies(): readonly SeedMovie[] {
  // The package's entry is build/…; its data lies beside that folder.
  const file = new URL("../data/movies.json", import.meta.resolve("vega-datasets"));
  const rows = JSON.parse(readFileSync(file, "utf8")) as Readonly<Record<string, unknown>>[];
  const text = (value: unknown): string | null =>
    value === null || value === undefined || value === "" ? null : String(value);
  return rows
    .filter((row) => text(row.Title) !== null)
    .sort((a, b) => Number(b["IMDB Votes"] ?? 0) - Number(a["IMDB Votes"] ?? 0))
    .map((row, index) => {
      return {
        id: index + 1,
        title: String(row.Title),
        year: yearOf(row["Release Date"]),
        genre: text(row["Major Genre"]),
        director: text(row.Director),
        rating: Number(row["IMDB Rating"] ?? 6),
        votes: Number(row["IMDB Votes"] ?? 0),
      };
    });
}

/** The newest year of the data. Years were written with two digits once, so that a film of 1946 now says 2046. */
const NEWEST_YEAR = 2012;

/** The year of a date such as "Jun 12 1998"; null where there is none. */
function yearOf(date: unknown): number | null {
  // Read as text: a Date would be of the reader's time zone, where New Year may be another year.
  const year = Number(/\d{4}$/.exec(String(date))?.[0] ?? Number.NaN);
  if (Number.isNaN(year)) return null;
  return year > NEWEST_YEAR ? year - 100 : year;
}

/** Numbers from 0 to 1 that are the same on every machine: mulberry32. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Ratings drawn with a fixed seed: the film by a Zipf law over the films' popularity, the stars around what its critics gave. */
export function drawRatings(
  movies: readonly SeedMovie[],
  count: number,
): { readonly movieIds: number[]; readonly stars: number[] } {
  const random = seededRandom(20_261_121);
  const cumulative: number[] = [];
  let total = 0;
  for (let rank = 1; rank <= movies.length; rank++) {
    total += 1 / rank;
    cumulative.push(total);
  }
  const movieIds: number[] = [];
  const stars: number[] = [];
  for (let nth = 0; nth < count; nth++) {
    const movie = movies[firstAbove(cumulative, random() * total)] as SeedMovie;
    movieIds.push(movie.id);
    stars.push(Math.min(10, Math.max(1, Math.round(movie.rating + (random() + random() + random() - 1.5) * 3))));
  }
  return { movieIds, stars };
}

function firstAbove(cumulative: readonly number[], target: number): number {
  let low = 0;
  let high = cumulative.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((cumulative[middle] as number) > target) high = middle;
    else low = middle + 1;
  }
  return low;
}
