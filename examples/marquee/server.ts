/**
 * The film site. It prints the SQL that runs, and for each response which fields were hits and which were
 * loaded. The first query runs SQL, the second none; after a rating, the next query runs its SQL again.
 *
 *   npm start                          memory store
 *   REDIS_URL=redis://… npm start      Redis; start two with different PORTs: the second runs no SQL
 */
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { type CacheEvent, memoryStore } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { openDatabase } from "./database.js";
import { startSite } from "./site.js";

const QUERY = "{ top { title year stars director { name } } }";
const INSPECTION =
  "{ cacheInspection { stats { reads hit loaded loads } fields { coordinate stats { reads hit loaded } } } }";
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
  redisUrl === undefined ? undefined : new Redis(redisUrl, { maxRetriesPerRequest: 0, enableOfflineQueue: false });
const store = client === undefined ? memoryStore() : redisStore({ client });

try {
  const outcomes = new Map<string, number>();
  const site = await startSite({
    database,
    store,
    port,
    inspectorPort: 0,
    onEvent: (event) => countOutcome(event, outcomes),
    onResponse: () => printOutcomes(outcomes),
  });
  const stop = async (): Promise<void> => {
    await site.close();
    client?.disconnect();
    await database.close();
    process.exit(0);
  };
  process.once("SIGINT", () => void stop()).once("SIGTERM", () => void stop());
  console.log(`
Marquee is at ${site.url} with ${client === undefined ? "a memory store" : "Redis"}. The page there runs queries and shows what was a hit. Send this query twice, there or from a shell:

  curl -s ${site.url} -H 'content-type: application/json' -d '{"query":"${QUERY}"}'

Rate a film, then send the query again:

  curl -s ${site.url} -H 'content-type: application/json' -d '{"query":"mutation { rate(movie: 1, stars: 10) { title stars } }"}'

See what the cache does: ${site.inspectorUrl}

Inspect the cache as an operator (this site admits the user \`admin\`):

  curl -s ${site.url} -H 'content-type: application/json' -H 'x-user: admin' -d '{"query":"${INSPECTION}"}'

The SQL that runs, and what each response got from the cache:
`);
} catch (error) {
  console.error(error);
  client?.disconnect();
  await database.close();
  process.exit(1);
}

/** Counts how reads ended, such as `Query.top hit`. */
function countOutcome(event: CacheEvent, outcomes: Map<string, number>): void {
  if (event.name !== "entry.served" && event.name !== "resolver.bypassed") return;
  const outcome = event.name === "entry.served" ? event.outcome : `bypassed (${event.reason})`;
  const text = `${event.coordinate} ${outcome}`;
  outcomes.set(text, (outcomes.get(text) ?? 0) + 1);
}

function printOutcomes(outcomes: Map<string, number>): void {
  const parts = [...outcomes].map(([text, count]) => (count === 1 ? text : `${text} x${count}`));
  console.log(`CACHE         ${parts.join(", ") || "no cached field"}`);
  outcomes.clear();
}

/** Checked before the database is opened, because Apollo's standalone server ends the process when its port is in use. */
function isPortInUse(candidate: number): Promise<boolean> {
  return new Promise((resolve) => {
    const probe = createServer()
      .once("error", () => resolve(true))
      .listen(candidate, "127.0.0.1", () => probe.close(() => resolve(false)));
  });
}
