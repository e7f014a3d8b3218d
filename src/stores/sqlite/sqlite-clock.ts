import { appendToClock } from "../../core/store/clock-log.js";
import { bufferOf, type Connection, type Work } from "./connection.js";
import { readContent, writeContent } from "./named-content.js";

/** The size of a log beyond which it loses its older half. */
const MAX_LOG_BYTES = 1024 * 1024;
/** A log is stored in parts of this size, of which an invalidation writes the last one only. */
const PART_BYTES = 16 * 1024;

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
