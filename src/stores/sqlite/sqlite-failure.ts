/**
 * What an error of a database means for the store:
 *
 * - `busy`: another process has it locked.
 * - `full`: there is no space on the disk.
 * - `damaged`: what is in the file is no database, or not a whole one.
 * - `forbidden`: this process may not read or write it.
 */
export type SqliteFailure = "busy" | "full" | "damaged" | "forbidden" | "other";

/** By the primary result codes of SQLite, https://sqlite.org/rescode.html, and those of the file system. */
const FAILURES: Readonly<Record<string, SqliteFailure>> = {
  SQLITE_BUSY: "busy",
  SQLITE_LOCKED: "busy",
  SQLITE_FULL: "full",
  SQLITE_CORRUPT: "damaged",
  SQLITE_NOTADB: "damaged",
  SQLITE_PERM: "forbidden",
  SQLITE_READONLY: "forbidden",
  SQLITE_AUTH: "forbidden",
  ENOSPC: "full",
  EDQUOT: "full",
  EACCES: "forbidden",
  EPERM: "forbidden",
  EROFS: "forbidden",
};
const NAMES: Readonly<Record<number, string>> = {
  3: "SQLITE_PERM",
  5: "SQLITE_BUSY",
  6: "SQLITE_LOCKED",
  8: "SQLITE_READONLY",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  23: "SQLITE_AUTH",
  26: "SQLITE_NOTADB",
};

/** node:sqlite says a number in `errcode`, better-sqlite3 a name in `code`, both of extended codes. */
export function failureOf(error: unknown): SqliteFailure {
  const { code, errcode } = (error ?? {}) as { readonly code?: unknown; readonly errcode?: unknown };
  const name = typeof errcode === "number" ? NAMES[errcode & 0xff] : String(code);
  if (name === undefined) return "other";
  const primary = /^SQLITE_[A-Z]+/.exec(name)?.[0] ?? name;
  return FAILURES[primary] ?? "other";
}
