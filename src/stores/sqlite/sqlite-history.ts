import { HISTORY_OVERHEAD_BYTES, type History, type HistoryLimits } from "../../core/store/history.js";
import { bufferOf, type Connection, type Work } from "./connection.js";
import { readInstant, writeInstant } from "./named-content.js";

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
