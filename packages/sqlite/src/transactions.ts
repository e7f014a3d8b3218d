import type { Clock } from "graphql-cached/store";
import { type Connection, failureOf, type SqliteFailure, timeOf, type Work } from "./connection.js";
import type { DatabaseFile } from "./database-file.js";
import { dropOldest } from "./entries.js";

/**
 * Runs transactions on the database that is in use. SQLite works on the calling thread, so that
 * nothing here may take long: a lock of another process is waited for with timers.
 */
export class Transactions {
  readonly #file: DatabaseFile;
  readonly #clock: Clock;

  constructor(file: DatabaseFile, clock: Clock) {
    this.#file = file;
    this.#clock = clock;
  }

  read<T>(work: (work: Work) => T): Promise<T> {
    return this.#run("read", work, PATIENCE_MS);
  }

  /** `patienceMs`: after which time the transaction must not begin any more. */
  write<T>(work: (work: Work) => T, patienceMs: number = PATIENCE_MS): Promise<T> {
    return this.#run("write", work, patienceMs);
  }

  async #run<T>(kind: "read" | "write", work: (work: Work) => T, patienceMs: number): Promise<T> {
    const endsAt = this.#clock.now() + patienceMs;
    let pauseMs = FIRST_PAUSE_MS;
    const repaired = new Set<SqliteFailure>();
    for (;;) {
      let db: Connection | undefined;
      try {
        const connection = await this.#file.connect();
        db = connection;
        return connection.transaction(kind, () => work({ db: connection, now: timeOf(this.#clock) }));
      } catch (error) {
        const failure = failureOf(error);
        if (failure === "busy" && this.#clock.now() + pauseMs < endsAt) {
          await this.#pause(pauseMs);
          pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS);
          continue;
        }
        if (failure === "forbidden") throw Object.assign(error as Error, { isMissingRight: true });
        // Each of them once.
        if (db === undefined || repaired.has(failure)) throw error;
        repaired.add(failure);
        if (failure === "damaged") this.#file.replace(db);
        else if (failure === "full") this.#makeSpace(db);
        else throw error;
      }
    }
  }

  /**
   * Of a full disk: SQLite's log is written from its beginning again, and what was in some entries
   * is free.
   */
  #makeSpace(db: Connection): void {
    db.checkpoint();
    try {
      db.transaction("write", () => dropOldest({ db, now: timeOf(this.#clock) }));
    } catch {
      // The transaction that is tried again fails for the same reason: SQLite's log cannot be moved
      // into a database that has to grow.
    }
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#clock.after(ms, resolve, true));
  }
}

/**
 * For how long a transaction is tried again while another process has the database locked. The
 * cache has given up on most earlier.
 */
const PATIENCE_MS = 1_000;
const FIRST_PAUSE_MS = 1;
const MAX_PAUSE_MS = 20;
