import { readFileSync } from "node:fs";

/** Increment when the seed data changes, so that existing databases are rebuilt. */
export const SEED_VERSION = 3;

/** One film of the seed data. */
export interface SeedMovie {
  readonly id: number;
  readonly title: string;
  readonly year: number | null;
  readonly genre: string | null;
  /** Out of 10; an average rating where the data has none. */
  readonly rating: number;
  readonly votes: number;
}

/**
 * Reads the films of the npm package vega-datasets, ordered by number of votes. Numeric titles are converted
 * to text; films without a title are left out.
 */
export function readMovies(): readonly SeedMovie[] {
  // The entry point of the package is in build/, next to the data folder.
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
        rating: Number(row["IMDB Rating"] ?? 6),
        votes: Number(row["IMDB Votes"] ?? 0),
      };
    });
}

/** The latest year of the data. Some years were expanded from two digits, so that 1946 became 2046. */
const NEWEST_YEAR = 2012;

/** Returns the year of a date such as "Jun 12 1998", or null. */
function yearOf(date: unknown): number | null {
  // Parsed as text, because a Date depends on the local time zone and may shift 1 January into another year.
  const year = Number(/\d{4}$/.exec(String(date))?.[0] ?? Number.NaN);
  if (Number.isNaN(year)) return null;
  return year > NEWEST_YEAR ? year - 100 : year;
}

/** Returns a generator of numbers from 0 (included) to 1 (excluded) that is the same on every machine. Source: mulberry32. */
export function seededRandom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Draws ratings with a fixed seed: films by a Zipf distribution over their popularity, stars around their actual rating. */
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
