import type { Clock } from "graphql-cached/store";

/** A connection to one database: prepared statements and transactions. */
export class Connection {
  readonly #database: SqliteDatabase;
  readonly #statements = new Map<string, SqliteStatement>();

  /** Closes the database if it cannot be used. */
  constructor(database: SqliteDatabase) {
    this.#database = database;
    try {
      this.#setUp();
    } catch (error) {
      this.close();
      throw error;
    }
  }

  #setUp(): void {
    this.#database.exec(`PRAGMA busy_timeout = ${BLOCKING_MS}`);
    const { journal_mode: mode } = this.get<{ journal_mode: string }>("PRAGMA journal_mode = WAL") ?? {};
    if (mode !== "wal")
      throw new Error(
        `sqliteStore: expected a file system with shared memory for SQLite's write-ahead log, got journal_mode ${mode}`,
      );
    // A process that dies loses nothing, and what a machine loses when it stops is not read
    // afterwards: see DatabaseFile.
    this.#database.exec(
      `PRAGMA synchronous = OFF; PRAGMA wal_autocheckpoint = ${LOG_PAGES}; PRAGMA journal_size_limit = ${LOG_BYTES}; PRAGMA temp_store = MEMORY`,
    );
    const { application_id: id } = this.get<{ application_id: number }>("PRAGMA application_id") ?? {};
    if (id !== APPLICATION_ID && id !== 0)
      throw new NoStore("sqliteStore: expected a database of this store, got another");
    if (id === 0 || (this.get<{ count: number }>(COUNT_TABLES)?.count ?? 0) < TABLES)
      this.transaction("write", () => this.#database.exec(`PRAGMA application_id = ${APPLICATION_ID}; ${SCHEMA}`));
  }

  get<Row>(sql: string, ...parameters: (string | number | Uint8Array)[]): Row | undefined {
    return this.#prepare(sql).get(...parameters) as Row | undefined;
  }

  all<Row>(sql: string, ...parameters: (string | number | Uint8Array)[]): readonly Row[] {
    return this.#prepare(sql).all(...parameters) as Row[];
  }

  run(sql: string, ...parameters: (string | number | Uint8Array)[]): void {
    this.#prepare(sql).run(...parameters);
  }

  /**
   * Runs `work` in one transaction, which no other process writes into, and of which it sees all or
   * nothing.
   */
  transaction<T>(kind: "read" | "write", work: () => T): T {
    this.run(kind === "write" ? "BEGIN IMMEDIATE" : "BEGIN");
    try {
      const result = work();
      this.run("COMMIT");
      return result;
    } catch (thrown) {
      // SQLite has ended the transaction itself after some errors.
      try {
        this.run("ROLLBACK");
      } catch {}
      throw thrown;
    }
  }

  /**
   * Copies what is in SQLite's log into the database, so that the log can be written from its
   * beginning again.
   */
  checkpoint(): void {
    try {
      this.get("PRAGMA wal_checkpoint(PASSIVE)");
    } catch (error) {
      if (failureOf(error) === "other") throw error;
    }
  }

  close(): void {
    this.#statements.clear();
    try {
      this.#database.close();
    } catch {
      // A file that cannot be written any more cannot be closed in order either.
    }
  }

  #prepare(sql: string): SqliteStatement {
    let statement = this.#statements.get(sql);
    if (statement === undefined) {
      statement = this.#database.prepare(sql);
      this.#statements.set(sql, statement);
    }
    return statement;
  }
}

/**
 * For how long a statement waits for a lock while it blocks this process. A transaction of another
 * process ends within a millisecond; for what takes longer, the store waits without blocking.
 */
const BLOCKING_MS = 5;
/**
 * After how many pages SQLite moves its log into the database: what takes a millisecond at once.
 */
const LOG_PAGES = 256;
const LOG_BYTES = 16 * 1024 * 1024;

/** Marks a database of this store: "gqlc". */
const APPLICATION_ID = 0x67716c63;

/**
 * The tables. The clock concerns all releases, and its content says its own format. The layout of
 * all others belongs to the release: one with another layout has tables with another number beside
 * them.
 */
const SCHEMA = `
  CREATE TABLE IF NOT EXISTS names (name TEXT PRIMARY KEY, content BLOB NOT NULL) WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS clock_log (name TEXT NOT NULL, part INTEGER NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (name, part));
  CREATE TABLE IF NOT EXISTS entries_1 (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, drop_at REAL NOT NULL, bytes BLOB NOT NULL);
  CREATE INDEX IF NOT EXISTS entries_1_by_end ON entries_1 (drop_at);
  CREATE TABLE IF NOT EXISTS reports_1 (
    name TEXT NOT NULL, process TEXT NOT NULL, drop_at REAL NOT NULL, bytes BLOB NOT NULL, PRIMARY KEY (name, process));
`;
const TABLES = 4;
const COUNT_TABLES =
  "SELECT count(*) AS count FROM sqlite_schema WHERE name IN ('names', 'clock_log', 'entries_1', 'reports_1')";

/** A file that is no database of this store, although its pointer says so. */
class NoStore extends Error {
  readonly code = "SQLITE_NOTADB";
}

export interface Work {
  readonly db: Connection;
  /**
   * The time on the store's clock, from when the transaction had begun: what it waited for is over.
   */
  readonly now: number;
}

/**
 * The time on the store's clock: that of the day, which the processes of a machine have in common.
 */
export const timeOf = (clock: Clock): number => clock.wallTime?.() ?? clock.now();

/** Returns the bytes of a blob as a Buffer, without copying them. */
export const bufferOf = (blob: Uint8Array): Buffer => Buffer.from(blob.buffer, blob.byteOffset, blob.byteLength);

/**
 * The part of a database that the store uses. `DatabaseSync` of node:sqlite and `Database` of
 * better-sqlite3 have it; neither needs to be installed for this module to be loaded.
 */
export interface SqliteDatabase {
  /** Runs statements that return nothing. */
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

/**
 * A prepared statement. Rows are objects by column, with numbers, strings, and blobs as
 * `Uint8Array`.
 */
export interface SqliteStatement {
  /** Returns the first row. Undefined if there is none. */
  get(...parameters: (string | number | Uint8Array)[]): unknown;
  all(...parameters: (string | number | Uint8Array)[]): unknown[];
  run(...parameters: (string | number | Uint8Array)[]): unknown;
}

/** Opens the database in a file. */
export type OpenDatabase = (file: string) => SqliteDatabase;

/**
 * Not written into the `import`, so that no bundler takes a native package for a part of the
 * application.
 */
const OPTIONAL_PEER: string = "better-sqlite3";

/**
 * Returns how to open a database: by node:sqlite, which Node.js 22.13 and later have, or else by
 * better-sqlite3. Rejects if there is neither.
 */
export async function findDatabase(): Promise<OpenDatabase> {
  const builtIn = process.getBuiltinModule?.("node:sqlite" as string) as
    | { readonly DatabaseSync: new (file: string) => SqliteDatabase }
    | undefined;
  if (builtIn !== undefined) return (file) => new builtIn.DatabaseSync(file);
  const { default: Database } = (await import(OPTIONAL_PEER).catch((cause: unknown) => {
    throw new Error(
      `sqliteStore: expected node:sqlite or better-sqlite3, got neither in Node.js ${process.version}; use Node.js 22.13 or newer, or npm install better-sqlite3`,
      { cause },
    );
  })) as { readonly default: new (file: string) => SqliteDatabase };
  return (file) => new Database(file);
}

/**
 * What an error of a database means for the store:
 *
 * - `busy`: another process has it locked.
 * - `full`: there is no space on the disk.
 * - `damaged`: what is in the file is no database, or not a whole one.
 * - `forbidden`: this process may not read or write it.
 */
export type SqliteFailure = "busy" | "full" | "damaged" | "forbidden" | "other";

/**
 * By the primary result codes of SQLite, https://sqlite.org/rescode.html, and those of the file
 * system.
 */
const CODES: readonly (readonly [SqliteFailure, ...(string | number)[]])[] = [
  ["busy", 5, 6, "SQLITE_BUSY", "SQLITE_LOCKED"],
  ["full", 13, "SQLITE_FULL", "ENOSPC", "EDQUOT"],
  ["damaged", 11, 26, "SQLITE_CORRUPT", "SQLITE_NOTADB"],
  ["forbidden", 3, 8, 23, "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_AUTH", "EACCES", "EPERM", "EROFS"],
];

/**
 * node:sqlite says a number in `errcode`, better-sqlite3 a name in `code`, both of extended codes.
 */
export function failureOf(error: unknown): SqliteFailure {
  const { code, errcode } = (error ?? {}) as { readonly code?: unknown; readonly errcode?: unknown };
  const primary =
    typeof errcode === "number" ? errcode & 0xff : (/^SQLITE_[A-Z]+/.exec(String(code))?.[0] ?? String(code));
  return CODES.find(([, ...codes]) => codes.includes(primary))?.[0] ?? "other";
}
