import { appendToClock, readStoredEntry, type StoredEntry, writeStoredEntry } from "graphql-cached/store";
import { bufferOf, type Connection, type Work } from "./connection.js";

/**
 * A transaction that has written this many entries deletes up to twice as many and these that have
 * expired.
 */
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

/**
 * Replaces the entry at a key. It is the newest then: entries are evicted in the order in which
 * they were written.
 */
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

/**
 * Deletes some of what has expired, and the oldest entries if all is larger than `maxBytes`.
 * `written`: how many entries were written.
 */
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

/**
 * Returns the size of all pages that are in use: of entries, the clock, and what else is in the
 * database.
 */
export function usedBytes(db: Connection): number {
  const pages = db.get<{ page_count: number }>("PRAGMA page_count")?.page_count ?? 0;
  const free = db.get<{ freelist_count: number }>("PRAGMA freelist_count")?.freelist_count ?? 0;
  return (pages - free) * (db.get<{ page_size: number }>("PRAGMA page_size")?.page_size ?? 0);
}

/**
 * Returns what is kept under a name besides entries and reports: the head of a clock, the settings,
 * or an instant. Undefined if there is nothing.
 */
export function readContent(db: Connection, name: string): Buffer | undefined {
  const row = db.get<{ readonly content: Uint8Array }>("SELECT content FROM names WHERE name = ?", name);
  return row && bufferOf(row.content);
}

/** The size of a log beyond which it loses its older half. */
const MAX_LOG_BYTES = 1024 * 1024;
/** A log is stored in parts of this size, of which an invalidation writes the last one only. */
const PART_BYTES = 16 * 1024;

function writeContent(db: Connection, name: string, content: Uint8Array): void {
  db.run("INSERT OR REPLACE INTO names (name, content) VALUES (?, ?)", name, content);
}

export function readInstant(db: Connection, name: string): number {
  const content = readContent(db, name);
  return content?.length === 8 ? content.readDoubleLE(0) : 0;
}

export function writeInstant(db: Connection, name: string, at: number): void {
  const content = Buffer.alloc(8);
  content.writeDoubleLE(at);
  writeContent(db, name, content);
}

/** Appends records to the invalidation clock, and returns its head. */
export function appendClock(
  { db, now }: Work,
  name: string,
  records: readonly Buffer[],
  lostEpoch: string | undefined,
): Buffer {
  const head = readContent(db, name);
  const log = readLogFrom(db, name, 0) ?? Buffer.alloc(0);
  const before = head && { head, log };
  const after = appendToClock(before, records, Math.floor(now * 1000), MAX_LOG_BYTES, lostEpoch);
  if (after === before) return after.head;
  writeContent(db, name, after.head);
  writeLog(db, name, log, after.log);
  return after.head;
}

export function readLogFrom(db: Connection, name: string, from: number): Buffer | undefined {
  const first = Math.floor(from / PART_BYTES);
  const sql = "SELECT bytes FROM clock_log WHERE name = ? AND part >= ? ORDER BY part";
  const parts = db.all<{ readonly bytes: Uint8Array }>(sql, name, first);
  if (parts.length > 0)
    return Buffer.concat(parts.map(({ bytes }) => bufferOf(bytes))).subarray(from - first * PART_BYTES);
  return first === 0 || readLogFrom(db, name, 0) === undefined ? undefined : Buffer.alloc(0);
}

function writeLog(db: Connection, name: string, before: Buffer, after: Buffer): void {
  const parts = Math.ceil(after.length / PART_BYTES);
  for (let part = 0; part < parts; part++) {
    const [from, to] = [part * PART_BYTES, (part + 1) * PART_BYTES];
    const bytes = after.subarray(from, to);
    if (!bytes.equals(before.subarray(from, to)))
      db.run("INSERT OR REPLACE INTO clock_log (name, part, bytes) VALUES (?, ?, ?)", name, part, bytes);
  }
  if (before.length > after.length) db.run("DELETE FROM clock_log WHERE name = ? AND part >= ?", name, parts);
}
