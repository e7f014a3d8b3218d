import { MAX_REPORTING, REPORTS_KEPT_MS, type ReportStore, replyAt } from "../../core/store/report-store.js";
import { bufferOf, type Work } from "./connection.js";
import { readInstant, writeInstant } from "./named-content.js";
import type { Transactions } from "./transactions.js";

/** Keeps the reports of the processes of one prefix, whose `StoreNames.invalidationLog` is `prefixName()`. */
export function sqliteReports(transactions: Transactions, prefixName: () => string): ReportStore {
  const asked = (): string => `${prefixName()}:asked`;

  function dropOld({ db, now }: Work): void {
    const sql =
      "DELETE FROM reports_1 WHERE rowid IN (SELECT rowid FROM reports_1 WHERE name = ? AND drop_at <= ? LIMIT ?)";
    db.run(sql, prefixName(), now, EXPIRED);
    db.run("DELETE FROM processes_1 WHERE name = ? AND reported_at <= ?", prefixName(), now - REPORTS_KEPT_MS);
  }

  return {
    write: ({ process, sequence, parts }) =>
      transactions.write((work) => {
        const { db, now } = work;
        const prefix = prefixName();
        dropOld(work);
        const known = db.get("SELECT 1 FROM processes_1 WHERE name = ? AND process = ?", prefix, process);
        db.run(
          "INSERT OR REPLACE INTO processes_1 (name, process, reported_at) VALUES (?, ?, ?)",
          prefix,
          process,
          now,
        );
        const sql = `INSERT INTO reports_1 (name, process, part, sequence, drop_at, bytes) VALUES (?, ?, ?, ?, ?, ?)
          ON CONFLICT (name, process, part) DO UPDATE
          SET sequence = excluded.sequence, drop_at = excluded.drop_at, bytes = excluded.bytes WHERE sequence <= excluded.sequence`;
        for (const { name, bytes, keepMs } of parts) db.run(sql, prefix, process, name, sequence, now + keepMs, bytes);
        return { ...replyAt(now, readInstant(db, asked())), isFirst: known === undefined };
      }),
    list: () =>
      transactions.read(({ db, now }) => {
        const sql = `SELECT process AS id, reported_at AS reportedAt FROM processes_1
          WHERE name = ? AND reported_at > ? ORDER BY reported_at DESC LIMIT ?`;
        const processes = db.all<{ id: string; reportedAt: number }>(
          sql,
          prefixName(),
          now - REPORTS_KEPT_MS,
          MAX_REPORTING,
        );
        return {
          ...replyAt(now, readInstant(db, asked())),
          processes: processes.map(({ id, reportedAt }) => ({ id, reportedAt })),
        };
      }),
    read: (wanted) =>
      transactions.read(({ db, now }) => {
        const sql = "SELECT bytes FROM reports_1 WHERE name = ? AND process = ? AND part = ? AND drop_at > ?";
        return wanted.map(({ process, part }) => {
          const row = db.get<{ readonly bytes: Uint8Array }>(sql, prefixName(), process, part, now);
          return row && bufferOf(row.bytes);
        });
      }),
    ask: (ms) =>
      transactions.write(({ db, now }) => writeInstant(db, asked(), Math.max(readInstant(db, asked()), now + ms))),
  };
}

/** A report deletes this many parts at most that have expired. */
const EXPIRED = 100;
