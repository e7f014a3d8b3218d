/** Runs PostgreSQL (PGlite) in a worker thread, because its queries would block the event loop of a server. */
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { PGlite } from "@electric-sql/pglite";
import { drawRatings, readMovies, SEED_VERSION, type SeedMovie } from "./seed.js";

/** The worker data. */
export interface DatabaseSetup {
  readonly folder: string;
  readonly ratings: number;
}

export interface StatementRequest {
  readonly id: number;
  readonly sql: string;
  readonly params: readonly unknown[];
}

export type StatementReply = { readonly id: number } & (
  | { readonly rows: Readonly<Record<string, unknown>>[]; readonly tookMs: number }
  | { readonly failure: string }
);

const TABLES = `
  CREATE TABLE movies (id int PRIMARY KEY, title text NOT NULL, year int, genre text);
  CREATE TABLE ratings (id serial PRIMARY KEY, movie_id int NOT NULL REFERENCES movies, stars int NOT NULL);
`;
const INDEXES = `
  CREATE INDEX ON movies (genre);
  CREATE INDEX ON ratings (movie_id);
  ANALYZE;
`;

async function seed(db: PGlite, movies: readonly SeedMovie[], ratings: number): Promise<void> {
  await db.exec(TABLES);
  await db.query("INSERT INTO movies SELECT * FROM unnest($1::int[], $2::text[], $3::int[], $4::text[])", [
    movies.map((movie) => movie.id),
    movies.map((movie) => movie.title),
    movies.map((movie) => movie.year),
    movies.map((movie) => movie.genre),
  ]);
  const { movieIds, stars } = drawRatings(movies, ratings);
  for (let at = 0; at < ratings; at += 50_000)
    await db.query("INSERT INTO ratings (movie_id, stars) SELECT * FROM unnest($1::int[], $2::int[])", [
      movieIds.slice(at, at + 50_000),
      stars.slice(at, at + 50_000),
    ]);
  await db.exec(INDEXES);
}

/** Opens the database in the folder. Rebuilds it if it is missing, incomplete or built from another seed. */
async function open({ folder, ratings }: DatabaseSetup): Promise<PGlite> {
  const marker = join(dirname(folder), "complete");
  const description = `seed ${SEED_VERSION}, ${ratings} ratings\n`;
  if (existsSync(marker) && readFileSync(marker, "utf8") === description) return PGlite.create(folder);
  // The marker is removed first and written last, so that an interrupted build leaves none.
  rmSync(marker, { force: true });
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(dirname(folder), { recursive: true });
  const db = await PGlite.create(folder);
  await seed(db, readMovies(), ratings);
  await db.exec("CHECKPOINT");
  writeFileSync(marker, description);
  return db;
}

const db = await open(workerData as DatabaseSetup);
parentPort?.on("message", async ({ id, sql, params }: StatementRequest) => {
  if (sql === "") {
    await db.close();
    parentPort?.close();
    return;
  }
  const startedAt = performance.now();
  try {
    const { rows } = await db.query<Record<string, unknown>>(sql, [...params]);
    parentPort?.postMessage({ id, rows, tookMs: performance.now() - startedAt } satisfies StatementReply);
  } catch (error) {
    parentPort?.postMessage({
      id,
      failure: error instanceof Error ? error.message : String(error),
    } satisfies StatementReply);
  }
});
parentPort?.postMessage({ id: 0, rows: [], tookMs: 0 } satisfies StatementReply);
