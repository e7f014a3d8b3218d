import { appendToClock } from "../../core/store/clock-log.js";
import { HISTORY_OVERHEAD_BYTES, type History, type HistoryLimits } from "../../core/store/history.js";
import { bufferOf, type Connection, type Work } from "./connection.js";

/** Returns what is kept under a name besides entries and reports: the head of a clock, the settings, or an instant. Undefined if there is nothing. */
export function readContent(db: Connection, name: string): Buffer | undefined {
  const row = db.get<{ readonly content: Uint8Array }>("SELECT content FROM names WHERE name = ?", name);
  return row && bufferOf(row.content);
}

/** The size of a log beyond which it loses its older half. */
const MAX_LOG_BYTES = 1024 * 1024;
/** A log is stored in parts of this size, of which an invalidation writes the last one only. */
const PART_BYTES = 16 * 1024;

export function writeContent(db: Connection, name: string, content: Uint8Array): void {
  db.run("INSERT OR REPLACE INTO names (name, content) VALUES (?, ?)", name, content);
}

/** Returns the instant of a name. 0 if there is none. */
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
export function appendClock({ db, now }: Work, name: string, records: readonly Buffer[]): Buffer {
  const head = readContent(db, name);
  const log = readLogFrom(db, name, 0) ?? Buffer.alloc(0);
  const before = head && { head, log };
  const after = appendToClock(before, records, Math.floor(now * 1000), MAX_LOG_BYTES);
  if (after === before) return after.head;
  writeContent(db, name, after.head);
  writeLog(db, name, log, after.log);
  return after.head;
}

/** Returns the bytes of the log from one of them on. Undefined if there is no log. */
export function readLogFrom(db: Connection, name: string, from: number): Buffer | undefined {
  const first = Math.floor(from / PART_BYTES);
  const sql = "SELECT bytes FROM clock_log WHERE name = ? AND part >= ? ORDER BY part";
  const parts = db.all<{ readonly bytes: Uint8Array }>(sql, name, first);
  if (parts.length > 0)
    return Buffer.concat(parts.map(({ bytes }) => bufferOf(bytes))).subarray(from - first * PART_BYTES);
  return first === 0 || readLogFrom(db, name, 0) === undefined ? undefined : Buffer.alloc(0);
}

/** Writes the parts of a log that have changed. */
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

interface Part {
  readonly id: number;
  readonly at: number;
  /** The size of this part and all that were appended before. */
  readonly total: number;
}

/** Appends a part to the history of `name`, and deletes the oldest ones beyond `limits`. */
export function appendHistory({ db, now }: Work, name: string, content: Uint8Array, limits: HistoryLimits): void {
  const newest = db.get<Part>("SELECT id, at, total FROM history_1 WHERE name = ? ORDER BY id DESC LIMIT 1", name);
  const total = (newest?.total ?? 0) + content.byteLength + HISTORY_OVERHEAD_BYTES;
  db.run("INSERT INTO history_1 (name, at, total, content) VALUES (?, ?, ?, ?)", name, now, total, content);
  if (readInstant(db, sinceOf(name)) === 0) writeInstant(db, sinceOf(name), now);
  for (;;) {
    const oldest = oldestOf(db, name);
    if (oldest === undefined) return;
    const size = total - oldest.total + HISTORY_OVERHEAD_BYTES + oldest.bytes;
    if (size <= limits.maxBytes && oldest.at >= now - limits.keepMs) return;
    db.run("DELETE FROM history_1 WHERE id = ?", oldest.id);
    writeInstant(db, sinceOf(name), Math.max(readInstant(db, sinceOf(name)), oldest.at));
  }
}

export function readHistory({ db, now }: Work, name: string): History {
  const sql = "SELECT at, content FROM history_1 WHERE name = ? ORDER BY id";
  const rows = db.all<{ readonly at: number; readonly content: Uint8Array }>(sql, name);
  const since = readInstant(db, sinceOf(name));
  return {
    now,
    since: since === 0 ? now : since,
    parts: rows.map(({ at, content }) => ({ at, content: bufferOf(content) })),
  };
}

const oldestOf = (db: Connection, name: string): (Part & { readonly bytes: number }) | undefined =>
  db.get("SELECT id, at, total, length(content) AS bytes FROM history_1 WHERE name = ? ORDER BY id LIMIT 1", name);

const sinceOf = (name: string): string => `${name}:since`;
