import {
  MAX_REPORTING,
  type ProcessReport,
  REPORTS_KEPT_MS,
  type ReportingProcess,
  type ReportReply,
  type ReportStore,
  type WriteReply,
} from "../../core/store/report-store.js";
import { bufferOf, type Work } from "./connection.js";
import { readInstant, writeInstant } from "./named-content.js";
import type { Transactions } from "./transactions.js";

/** A report deletes this many parts at most that have expired. */
const EXPIRED = 100;

/** The reports of the processes of one prefix. */
export class SqliteReports implements ReportStore {
  /** The name of the prefix, as `StoreNames.invalidationLog`. */
  name = "";
  readonly #transactions: Transactions;

  constructor(transactions: Transactions) {
    this.#transactions = transactions;
  }

  write({ process, sequence, parts }: ProcessReport): Promise<WriteReply> {
    return this.#transactions.write((work) => {
      const { db, now } = work;
      this.#dropOld(work);
      const known = db.get("SELECT 1 FROM processes_1 WHERE name = ? AND process = ?", this.name, process);
      db.run(
        "INSERT OR REPLACE INTO processes_1 (name, process, reported_at) VALUES (?, ?, ?)",
        this.name,
        process,
        now,
      );
      for (const { name: part, bytes, keepMs } of parts)
        db.run(
          `INSERT INTO reports_1 (name, process, part, sequence, drop_at, bytes) VALUES (?, ?, ?, ?, ?, ?)
           ON CONFLICT (name, process, part) DO UPDATE
           SET sequence = excluded.sequence, drop_at = excluded.drop_at, bytes = excluded.bytes WHERE sequence <= excluded.sequence`,
          this.name,
          process,
          part,
          sequence,
          now + keepMs,
          bytes,
        );
      return { ...this.#reply(work), isFirst: known === undefined };
    });
  }

  list(): Promise<ReportReply & { readonly processes: readonly ReportingProcess[] }> {
    return this.#transactions.read((work) => {
      const sql = `SELECT process AS id, reported_at AS reportedAt FROM processes_1
        WHERE name = ? AND reported_at > ? ORDER BY reported_at DESC LIMIT ?`;
      const rows = work.db.all<ReportingProcess>(sql, this.name, work.now - REPORTS_KEPT_MS, MAX_REPORTING);
      return { ...this.#reply(work), processes: rows.map(({ id, reportedAt }) => ({ id, reportedAt })) };
    });
  }

  read(
    wanted: readonly { readonly process: string; readonly part: string }[],
  ): Promise<readonly (Uint8Array | undefined)[]> {
    const sql = "SELECT bytes FROM reports_1 WHERE name = ? AND process = ? AND part = ? AND drop_at > ?";
    return this.#transactions.read(({ db, now }) =>
      wanted.map(({ process, part }) => {
        const row = db.get<{ readonly bytes: Uint8Array }>(sql, this.name, process, part, now);
        return row && bufferOf(row.bytes);
      }),
    );
  }

  ask(ms: number): Promise<void> {
    return this.#transactions.write(({ db, now }) =>
      writeInstant(db, this.#asked, Math.max(readInstant(db, this.#asked), now + ms)),
    );
  }

  get #asked(): string {
    return `${this.name}:asked`;
  }

  #reply({ db, now }: Work): ReportReply {
    const askedUntilAt = readInstant(db, this.#asked);
    return { now, askedUntilAt: askedUntilAt > now ? askedUntilAt : 0 };
  }

  #dropOld({ db, now }: Work): void {
    db.run(
      "DELETE FROM reports_1 WHERE rowid IN (SELECT rowid FROM reports_1 WHERE name = ? AND drop_at <= ? LIMIT ?)",
      this.name,
      now,
      EXPIRED,
    );
    db.run("DELETE FROM processes_1 WHERE name = ? AND reported_at <= ?", this.name, now - REPORTS_KEPT_MS);
  }
}
