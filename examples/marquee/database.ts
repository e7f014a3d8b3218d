import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { DatabaseSetup, StatementReply, StatementRequest } from "./database-worker.js";

/** A row, as plain data. */
export type Row = Readonly<Record<string, unknown>>;

/** What resolvers ask. */
export interface Database {
  query(sql: string, params?: readonly unknown[]): Promise<Row[]>;
}

/** A database that somebody has to close. */
export interface OpenDatabase extends Database {
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** Where it is kept between runs. */
  readonly folder?: string;
  readonly ratings?: number;
  /** Hears of every statement that was really run. */
  readonly onStatement?: (sql: string, tookMs: number) => void;
}

const CLOSED = "the database is closed";
const DEFAULT_FOLDER = fileURLToPath(new URL("../../.data/marquee", import.meta.url));

/** Starts the database in its worker thread. The first start builds it, which takes some seconds. */
export async function openDatabase(options: DatabaseOptions = {}): Promise<OpenDatabase> {
  const { folder = DEFAULT_FOLDER, ratings = 300_000, onStatement = () => undefined } = options;
  const setup: DatabaseSetup = { folder: join(folder, "pgdata"), ratings };
  const worker = new Worker(new URL("./database-worker.mjs", import.meta.url), { workerData: setup });
  const waiting = new Map<number, { sql: string; resolve(rows: Row[]): void; reject(error: Error): void }>();
  await once(worker, "message");
  worker.on("message", (reply: StatementReply) => {
    const asked = waiting.get(reply.id);
    waiting.delete(reply.id);
    if (asked === undefined) return;
    if ("failure" in reply) return asked.reject(new Error(reply.failure));
    onStatement(asked.sql, reply.tookMs);
    asked.resolve(reply.rows);
  });
  let lastId = 0;
  let closed = false;
  // Whatever ends the worker, nobody waits for an answer that cannot come.
  worker.once("exit", () => {
    closed = true;
    for (const { reject } of waiting.values()) reject(new Error(CLOSED));
    waiting.clear();
  });
  return {
    query: (sql, params = []) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(new Error(CLOSED));
        const request: StatementRequest = { id: ++lastId, sql, params };
        waiting.set(request.id, { sql, resolve, reject });
        worker.postMessage(request);
      }),
    async close() {
      if (closed) return;
      closed = true;
      const gone = once(worker, "exit");
      worker.postMessage({ id: 0, sql: "", params: [] } satisfies StatementRequest);
      await gone;
    },
  };
}
