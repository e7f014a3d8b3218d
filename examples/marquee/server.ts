/**
 * The film site. The first query prints the SQL it runs, the second prints none. After a rating, the next
 * query runs its SQL again.
 *
 *   npm start                          memory store
 *   REDIS_URL=redis://… npm start      Redis; start two with different PORTs: the second runs no SQL
 */
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { openDatabase } from "./database.js";
import { startSite } from "./site.js";

const QUERY = "{ top { title year stars director { name } } }";
const port = Number(process.env.PORT ?? 4000);
const redisUrl = process.env.REDIS_URL;

if (await isPortInUse(port)) {
  console.error(`port ${port} is in use; choose another one, for example: PORT=${port + 1} npm start`);
  process.exit(1);
}
console.log("opening the film database (the first start builds it, which takes a few seconds) …");
const database = await openDatabase({
  // Two processes must not open the same folder, so each port has its own database with the same films.
  folder: fileURLToPath(new URL(`../../.data/marquee-${port}`, import.meta.url)),
  onStatement: (sql, tookMs) => console.log(`SQL ${tookMs.toFixed(0).padStart(5)} ms  ${sql.replace(/\s+/g, " ")}`),
});
// Fails fast, without an offline queue or endless retries, because a late reply is of no use to a cache.
const client =
  redisUrl === undefined ? undefined : new Redis(redisUrl, { maxRetriesPerRequest: 1, enableOfflineQueue: false });
const store = client === undefined ? memoryStore() : redisStore({ client });

try {
  const site = await startSite({ database, store, port });
  const stop = async (): Promise<void> => {
    await site.close();
    client?.disconnect();
    await database.close();
    process.exit(0);
  };
  process.once("SIGINT", () => void stop()).once("SIGTERM", () => void stop());
  console.log(`
Marquee is at ${site.url} with ${client === undefined ? "a memory store" : "Redis"}. Paste this query there and run it twice:

  ${QUERY}

or use a shell:

  curl -s ${site.url} -H 'content-type: application/json' -d '{"query":"${QUERY}"}'

All executed SQL statements are printed below.
`);
} catch (error) {
  console.error(error);
  client?.disconnect();
  await database.close();
  process.exit(1);
}

/** Checked before the database is opened, because Apollo's standalone server ends the process when its port is in use. */
function isPortInUse(candidate: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
      .once("error", () => resolve(true))
      .listen(candidate, "127.0.0.1", () => probe.close(() => resolve(false)));
  });
}
