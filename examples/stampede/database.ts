import { once } from "node:events";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import type { DatabaseSetup, StatementReply, StatementRequest } from "./database-worker.js";

/** A row of a result. */
export type Row = Readonly<Record<string, unknown>>;

/** The interface that resolvers use. */
export interface Database {
  query(sql: string, params?: readonly unknown[]): Promise<Row[]>;
}

/** A database that its owner must close. */
export interface OpenDatabase extends Database {
  close(): Promise<void>;
}

export interface DatabaseOptions {
  /** Where the database is stored between runs. Default: .data/stampede. */
  readonly folder?: string;
  readonly ratings?: number;
  /** Called for every statement that was executed. */
  readonly onStatement?: (sql: string, tookMs: number) => void;
}

const CLOSED = "the database is closed";
const DEFAULT_FOLDER = fileURLToPath(new URL("../../.data/stampede", import.meta.url));

/** Starts the database in its worker thread. The first start builds it, which takes a few seconds. */
export async function openDatabase(options: DatabaseOptions = {}): Promise<OpenDatabase> {
  const { folder = DEFAULT_FOLDER, ratings = 300_000, onStatement = () => undefined } = options;
  const setup: DatabaseSetup = { folder: join(folder, "pgdata"), ratings };
  const worker = new Worker(new URL("./database-worker.mjs", import.meta.url), { workerData: setup });
  const waiting = new Map<number, { sql: string; resolve(rows: Row[]): void; reject(error: Error): void }>();
  await once(worker, "message");
  worker.on("message", (reply: StatementReply) => {
    const request = waiting.get(reply.id);
    waiting.delete(reply.id);
    if (request === undefined) return;
    if ("failure" in reply) return request.reject(new Error(reply.failure));
    onStatement(request.sql, reply.tookMs);
    request.resolve(reply.rows);
  });
  let lastId = 0;
  let closed = false;
  // Rejects all pending queries when the worker exits, whatever the reason.
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
      const exited = once(worker, "exit");
      worker.postMessage({ id: 0, sql: "", params: [] } satisfies StatementRequest);
      await exited;
    },
  };
}
