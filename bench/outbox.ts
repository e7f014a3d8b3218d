/**
 * What an outbox costs, on a PostgreSQL server of this machine: npx tsx bench/outbox.ts
 *
 * Prints the time from a commit to the end of the invalidation with and without notifications, what
 * the triggers add to an UPDATE, and how long the consumer takes for the tags.
 */
import { invalidateFromOutbox, outboxSql } from "@graphql-cached/postgres";
import { createCache } from "graphql-cached";
import { findPostgres, postgres } from "../packages/postgres/test/postgres-lab.js";
import { median } from "./statistics.js";

const program = findPostgres();
if (program === undefined) throw new Error("found no PostgreSQL server; set POSTGRES_SERVER to the path of `postgres`");
const db = await postgres(program);
const ROWS = 100_000;
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now();
  await work();
  return performance.now() - startedAt;
};
const print = (what: string, ms: number): void =>
  console.log(`${what}: ${ms < 10 ? ms.toFixed(1) : Math.round(ms)} ms`);

await db.exec("CREATE TABLE product (id int PRIMARY KEY, category_id int, stock int)");
await db.exec(`INSERT INTO product SELECT id, id % 100, 0 FROM generate_series(1, ${ROWS}) AS id`);
const updateAll = (): Promise<number> => timed(() => db.exec("UPDATE product SET stock = stock + 1"));
await updateAll();
print(`UPDATE of ${ROWS} rows, not watched`, median([await updateAll(), await updateAll(), await updateAll()]));
await db.exec(outboxSql());
await db.exec("SELECT graphql_cached.watch_table('product', 'Category:{category_id}')");
print("the same with 100 distinct tags", median([await updateAll(), await updateAll(), await updateAll()]));
await db.exec("SELECT graphql_cached.watch_table('product', 'Product:{id}'); TRUNCATE graphql_cached.outbox");
print(`the same with ${ROWS} distinct tags`, await updateAll());

const cache = createCache({ defaultScope: "PUBLIC" });
let invalidated = 0;
let wake = (): void => undefined;
const original = cache.invalidateTags.bind(cache);
cache.invalidateTags = async (tags) => {
  await original(tags);
  invalidated += tags.length;
  wake();
};
const consumed = (count: number): Promise<void> =>
  new Promise((resolve) => {
    wake = () => void (invalidated >= count && resolve());
    wake();
  });
let consumer = invalidateFromOutbox({ cache, database: db });
print(`invalidation of ${ROWS} tags (memory store)`, await timed(() => consumed(ROWS)));
await consumer.stop();

for (const [title, listen] of [
  ["with notifications", db.listen],
  ["polling every second", undefined],
] as const) {
  consumer = invalidateFromOutbox({ cache, database: db, listen, leaseMs: 60_000 });
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  const times: number[] = [];
  for (let round = 1; round <= (listen === undefined ? 10 : 200); round++) {
    const before = invalidated;
    await db.exec(`UPDATE product SET stock = stock + 1 WHERE id = ${round}`);
    times.push(await timed(() => consumed(before + 1)));
  }
  print(`from commit to invalidation, ${title}, median of ${times.length}`, median(times));
  await consumer.stop();
}
await cache.close();
await db.close();
