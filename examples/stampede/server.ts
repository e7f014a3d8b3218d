/** One server process of the stampede. Its parent runs all SQL statements, because all servers share one database, as in production. */
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import type { Database, Row } from "./database.js";
import { startSite } from "./site.js";

const { MODE, REDIS_URL = "", PREFIX = "" } = process.env;

const waiting = new Map<number, { resolve(rows: Row[]): void; reject(error: Error): void }>();
let lastId = 0;
const database: Database = {
  query: (sql, params = []) =>
    new Promise((resolve, reject) => {
      waiting.set(++lastId, { resolve, reject });
      process.send?.({ id: lastId, sql, params });
    }),
};
process.on("message", (message: { id: number; rows: Row[]; failure?: string } | { invalidate: string[] }) => {
  if ("invalidate" in message) {
    // After this, the films that the warm-up has loaded are as cold as the homepage.
    void site.invalidate(message.invalidate).then(() => process.send?.({ invalidated: true }));
    return;
  }
  const { id, rows, failure } = message;
  const request = waiting.get(id);
  waiting.delete(id);
  if (failure === undefined) request?.resolve(rows);
  else request?.reject(new Error(failure));
});
process.once("disconnect", () => process.exit(0));

const client =
  MODE === "redis" ? new Redis(REDIS_URL, { maxRetriesPerRequest: 0, enableOfflineQueue: false }) : undefined;
const store = client !== undefined ? redisStore({ client }) : MODE === "process" ? memoryStore() : "none";
const site = await startSite(database, store, PREFIX);
process.send?.({ url: site.url });
