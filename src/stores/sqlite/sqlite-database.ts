/**
 * The part of a database that the store uses. `DatabaseSync` of node:sqlite and `Database` of better-sqlite3 have it; neither needs to be
 * installed for this module to be loaded.
 */
export interface SqliteDatabase {
  /** Runs statements that return nothing. */
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
  close(): unknown;
}

/** A prepared statement. Rows are objects by column, with numbers, strings, and blobs as `Uint8Array`. */
export interface SqliteStatement {
  /** Returns the first row. Undefined if there is none. */
  get(...parameters: (string | number | Uint8Array)[]): unknown;
  all(...parameters: (string | number | Uint8Array)[]): unknown[];
  run(...parameters: (string | number | Uint8Array)[]): unknown;
}

/** Opens the database in a file. */
export type OpenDatabase = (file: string) => SqliteDatabase;

/** Not written into the `import`, so that no bundler takes a native package for a part of the application. */
const OPTIONAL_PEER: string = "better-sqlite3";

/**
 * Returns how to open a database: by node:sqlite, which Node.js 22.13 and later have, or else by better-sqlite3. Rejects if there is
 * neither.
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
