/**
 * The film site. Look for: the first query prints the SQL it runs, the second prints none; a rating makes the next one run again.
 *
 *   npm start                          memory store
 *   REDIS_URL=redis://… npm start      Redis; start two of them with different PORTs and see the second run no SQL at all
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

if (await isTaken(port)) {
  console.error(`port ${port} is taken: choose another one, such as PORT=${port + 1} npm start`);
  process.exit(1);
}
console.log("opening the film database (the first start builds it, which takes some seconds) …");
const database = await openDatabase({
  // Two processes must not open one folder: each server has a database of its own, with the same films.
  folder: fileURLToPath(new URL(`../../.data/marquee-${port}`, import.meta.url)),
  onStatement: (sql, tookMs) => console.log(`SQL ${tookMs.toFixed(0).padStart(5)} ms  ${sql.replace(/\s+/g, " ")}`),
});
// A cache wants answers soon or not at all: no queue while Redis is away, no endless retries.
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
Marquee is at ${site.url} with ${client === undefined ? "a memory store" : "Redis"}. Paste this query there, twice:

  ${QUERY}

or in a shell:

  curl -s ${site.url} -H 'content-type: application/json' -d '{"query":"${QUERY}"}'

Every SQL statement that is really run is printed below.
`);
} catch (error) {
  console.error(error);
  client?.disconnect();
  await database.close();
  process.exit(1);
}

/** Asked before anything is decoded: Apollo's standalone server ends the process when its port is taken. */
function isTaken(wanted: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
      .once("error", () => resolve(true))
      .listen(wanted, "127.0.0.1", () => probe.close(() => resolve(false)));
  });
}
