/**
 * One server process of the demo. Its parent starts it and has the database, since all processes share one, as in
 * production: a statement is sent to the parent, and its rows come back.
 */
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import type { Database } from "./database.js";
import { createSiteCache, createSiteSchema, serveSite } from "./site.js";

/** From a process to its parent. */
export type FromProcess =
  | { readonly fields: string; readonly responses: string }
  /** The cache is cleared. Null: without an error. */
  | { readonly cleared: string | null }
  | { readonly id: number; readonly sql: string; readonly params: readonly (string | number)[] };

const { REDIS, PREFIX = "marquee" } = process.env;

const send = (message: FromProcess): void => void (process.connected && process.send?.(message));
const waiting = new Map<number, (rows: never[]) => void>();
let lastId = 0;
const database: Database = {
  query: (sql, params) =>
    new Promise((resolve) => {
      waiting.set(++lastId, resolve);
      send({ id: lastId, sql, params });
    }),
};
process.on("message", async (message: { id: number; rows: never[] } | { clear: true }) => {
  if ("clear" in message) {
    const error = await cache.clear().then(() => null, String);
    return send({ cleared: error });
  }
  waiting.get(message.id)?.(message.rows);
  waiting.delete(message.id);
});
// Without its parent, the process has nothing to do; the parent may have ended before this line.
process.once("disconnect", () => process.exit());
if (!process.connected) process.exit();

// These two options make commands fail at once while Redis is down: a late reply is of no use to a cache.
const store =
  REDIS === undefined
    ? memoryStore()
    : redisStore({ client: new Redis(REDIS, { maxRetriesPerRequest: 0, enableOfflineQueue: false }) });
const cache = createSiteCache(store, PREFIX);
const schema = createSiteSchema(cache, database);
const [fields, responses] = await Promise.all([
  serveSite(schema, cache, { responses: false }),
  serveSite(schema, cache, { responses: true }),
]);
send({ fields, responses });
