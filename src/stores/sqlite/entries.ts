import { readStoredEntry, writeStoredEntry } from "../../core/store/entry-layout.js";
import type { StoredEntry } from "../../core/store/transitions.js";
import { bufferOf, type Connection, type Work } from "./connection.js";

/** A transaction that has written this many entries deletes up to twice as many and these that have expired. */
const EXPIRED_AT_LEAST = 16;
/** Entries are evicted this many at once, and so often at most in one transaction. */
const EVICTED = 64;
const MAX_EVICTIONS = 16;
/** The expected size of a row and its places in two indexes, besides its key and content. */
const OVERHEAD_BYTES = 100;

interface Row {
  readonly drop_at: number;
  readonly bytes: Uint8Array;
}

/** What is at a key. `unknown-format`: what another release has written. Undefined: nothing. */
export type Found = StoredEntry | "unknown-format" | undefined;

/** Returns what is at a key, unless its time is over. */
export function findEntry({ db, now }: Work, key: string): Found {
  const row = db.get<Row>("SELECT drop_at, bytes FROM entries_1 WHERE key = ?", key);
  if (row === undefined || row.drop_at <= now) return undefined;
  return readStoredEntry(bufferOf(row.bytes), row.drop_at) ?? "unknown-format";
}

/** The same, for those who leave alone what they do not know. */
export function knownEntry(work: Work, key: string): StoredEntry | undefined {
  const found = findEntry(work, key);
  return found === "unknown-format" ? undefined : found;
}

/** Replaces the entry at a key. It is the newest then: entries are evicted in the order in which they were written. */
export function putEntry({ db }: Work, key: string, entry: StoredEntry | undefined): void {
  if (entry === undefined) removeEntry(db, key);
  else
    db.run(
      "INSERT OR REPLACE INTO entries_1 (key, drop_at, bytes) VALUES (?, ?, ?)",
      key,
      entry.dropAt,
      writeStoredEntry(entry),
    );
}

export function removeEntry(db: Connection, key: string): void {
  db.run("DELETE FROM entries_1 WHERE key = ?", key);
}

export const sizeOf = (key: string, { body }: StoredEntry): number => OVERHEAD_BYTES + 2 * key.length + body.byteLength;

/** Deletes some of what has expired, and the oldest entries if all is larger than `maxBytes`. `written`: how many entries were written. */
export function makeRoom(work: Work, written: number, maxBytes: number): void {
  dropExpired(work, EXPIRED_AT_LEAST + 2 * written);
  for (let turn = 0; turn < MAX_EVICTIONS && usedBytes(work.db) > maxBytes; turn++) evict(work.db);
}

/** Deletes some entries, expired ones or not, without writing any. */
export function dropOldest(work: Work): void {
  dropExpired(work, EVICTED);
  evict(work.db);
}

function dropExpired({ db, now }: Work, count: number): void {
  db.run("DELETE FROM entries_1 WHERE id IN (SELECT id FROM entries_1 WHERE drop_at <= ? LIMIT ?)", now, count);
}

function evict(db: Connection): void {
  db.run("DELETE FROM entries_1 WHERE id IN (SELECT id FROM entries_1 ORDER BY id LIMIT ?)", EVICTED);
}

/** Returns the size of all pages that are in use: of entries, the clock, and what else is in the database. */
export function usedBytes(db: Connection): number {
  const pages = db.get<{ page_count: number }>("PRAGMA page_count")?.page_count ?? 0;
  const free = db.get<{ freelist_count: number }>("PRAGMA freelist_count")?.freelist_count ?? 0;
  return (pages - free) * (db.get<{ page_size: number }>("PRAGMA page_size")?.page_size ?? 0);
}

export const countEntries = (db: Connection): number =>
  db.get<{ count: number }>("SELECT count(*) AS count FROM entries_1")?.count ?? 0;
