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
const CODES: readonly (readonly [SqliteFailure, ...(string | number)[]])[] = [
  ["busy", 5, 6, "SQLITE_BUSY", "SQLITE_LOCKED"],
  ["full", 13, "SQLITE_FULL", "ENOSPC", "EDQUOT"],
  ["damaged", 11, 26, "SQLITE_CORRUPT", "SQLITE_NOTADB"],
  ["forbidden", 3, 8, 23, "SQLITE_PERM", "SQLITE_READONLY", "SQLITE_AUTH", "EACCES", "EPERM", "EROFS"],
];

/** node:sqlite says a number in `errcode`, better-sqlite3 a name in `code`, both of extended codes. */
export function failureOf(error: unknown): SqliteFailure {
  const { code, errcode } = (error ?? {}) as { readonly code?: unknown; readonly errcode?: unknown };
  const primary =
    typeof errcode === "number" ? errcode & 0xff : (/^SQLITE_[A-Z]+/.exec(String(code))?.[0] ?? String(code));
  return CODES.find(([, ...codes]) => codes.includes(primary))?.[0] ?? "other";
}
