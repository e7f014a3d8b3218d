/**
 * Sends two hundred concurrent requests for a cold homepage to four server processes that share a database:
 * without a cache, with a cache in each process, and with graphql-cached on Redis. Prints how often the SQL
 * of the homepage runs and how long the slowest request takes.
 *
 *   npm run stampede                          starts its own Redis
 *   npm run stampede -- redis process         without the slow variant
 *   REDIS_URL=redis://… npm run stampede
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { Agent, type IncomingMessage, request } from "node:http";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { RedisLab } from "../../test/support/redis-lab.js";
import { type OpenDatabase, openDatabase } from "./database.js";
import { MEDIAN_WEIGHT, TOP_SQL } from "./site.js";

const PROCESSES = 4;
const REQUESTS = 50;
/** Two hundred requests take 110 ms in new processes, and 30 ms once V8 has compiled the code, after some fifty rounds. */
const WARM_UP_ROUNDS = 60;
const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS });
const HOMEPAGE = "{ top { title } }";
/** Lengths of lists that are requested alone. Each is a separate cold page that costs as much as the homepage. */
const SINGLE_LENGTHS = [31, 32, 33, 34, 35];
const VARIANTS = [
  ["none", "without cache"],
  ["process", "a cache in each process"],
  ["redis", "graphql-cached on Redis"],
] as const;
/** The variants to run; all if empty. */
const selected = process.argv.slice(2);

interface Result {
  readonly name: string;
  readonly homepageRuns: number;
  readonly statements: number;
  readonly waits: readonly number[];
  /** The longest run of the homepage's SQL in the burst; distinguishes a slow database from a slow cache. */
  readonly sqlMs: number;
  /** The median duration of a request for such a page without concurrent requests. */
  readonly loadMs: number;
}

const statements: { readonly sql: string; readonly tookMs: number }[] = [];
const lab = process.env.REDIS_URL === undefined ? new RedisLab() : undefined;
console.log("opening the film database (the first start builds it, which takes a few seconds) …");
const database = await openDatabase({ onStatement: (sql, tookMs) => statements.push({ sql, tookMs }) });
try {
  const redisUrl = process.env.REDIS_URL ?? `redis://127.0.0.1:${(await lab?.standalone())?.port}`;
  console.log(`${PROCESSES} server processes, ${REQUESTS} concurrent requests to each, cold homepage.`);
  console.log(
    "Each process has served other pages before, including lists of other lengths, so that its code is compiled and",
  );
  console.log("its connections are open. A single load is such a list, cold, without concurrent requests.\n");
  const results: Result[] = [];
  for (const [mode, name] of VARIANTS) {
    if (selected.length > 0 && !selected.includes(mode)) continue;
    console.log(
      `… ${name}${mode === "none" ? ": the database has one connection, so this takes one to two minutes" : ""}`,
    );
    results.push(await run(mode, name, redisUrl));
  }
  print(results);
} finally {
  await database.close();
  await lab?.stop();
}

async function run(mode: string, name: string, redisUrl: string): Promise<Result> {
  const prefix = `stampede-${process.pid}-${mode}`;
  const servers = Array.from({ length: PROCESSES }, () =>
    start(database, { MODE: mode, REDIS_URL: redisUrl, PREFIX: prefix }),
  );
  try {
    const urls = await Promise.all(servers.map(({ ready }) => ready));
    await warmUp(urls);
    const loads: number[] = [];
    for (const [nth, n] of SINGLE_LENGTHS.entries())
      loads.push(await ask(urls[nth % urls.length] as string, `{ top(n: ${n}) { title } }`));
    // These pages contain films of the homepage. They are invalidated, so that every film of the homepage is cold.
    const tags = (await database.query(TOP_SQL, [Math.max(...SINGLE_LENGTHS), MEDIAN_WEIGHT])).map(
      ({ id }) => `Movie:${id}`,
    );
    await Promise.all(servers.map(({ child }) => invalidate(child, tags)));
    statements.length = 0;
    const waits = await burst(urls, HOMEPAGE);
    const runs = statements.filter(({ sql }) => sql === TOP_SQL);
    return {
      name,
      homepageRuns: runs.length,
      statements: statements.length,
      waits: waits.sort((a, b) => a - b),
      sqlMs: Math.max(...runs.map(({ tookMs }) => tookMs)),
      loadMs: percentile(
        loads.sort((a, b) => a - b),
        0.5,
      ),
    };
  } finally {
    await Promise.all(servers.map(({ child }) => stop(child)));
  }
}

/** Opens connections and gets code compiled by requesting pages other than the homepage. */
async function warmUp(urls: readonly string[]): Promise<void> {
  for (const [index, url] of urls.entries()) await ask(url, `{ top(n: ${20 + index}) { title } }`);
  for (let round = 0; round < WARM_UP_ROUNDS; round++)
    await burst(urls, `{ movie(id: ${1 + (round % 10)}) { title similar { title } } }`);
}

/** Invalidates tags in a server process and waits until it has finished. */
async function invalidate(child: ChildProcess, tags: readonly string[]): Promise<void> {
  const invalidated = new Promise<void>((resolve) => {
    child.on("message", (message: object) => "invalidated" in message && resolve());
  });
  child.send({ invalidate: tags });
  await invalidated;
}

function start(
  db: OpenDatabase,
  env: Record<string, string>,
): { readonly child: ChildProcess; readonly ready: Promise<string> } {
  const file = fileURLToPath(new URL("./server.ts", import.meta.url));
  const child = fork(file, { env: { ...process.env, ...env }, execArgv: ["--import", "tsx"] });
  const ready = new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`a server process exited with code ${code}`)));
    child.on("message", (message: { url: string } | { id: number; sql: string; params: unknown[] } | object) => {
      if ("url" in message) return resolve(message.url);
      if (!("sql" in message)) return;
      db.query(message.sql, message.params).then(
        (rows) => child.connected && child.send({ id: message.id, rows }),
        (error: Error) => child.connected && child.send({ id: message.id, failure: error.message }),
      );
    });
  });
  return { child, ready };
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = once(child, "exit");
  child.kill("SIGKILL");
  await exited;
}

function burst(urls: readonly string[], query: string): Promise<number[]> {
  return Promise.all(urls.flatMap((url) => Array.from({ length: REQUESTS }, () => ask(url, query))));
}

/** Sends a query and returns the milliseconds until the complete response has arrived. */
async function ask(url: string, query: string): Promise<number> {
  const startedAt = performance.now();
  const sent = request(url, { method: "POST", agent, headers: { "content-type": "application/json" } }).end(
    JSON.stringify({ query }),
  );
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const body = await text(response);
  if (body.includes('"errors"')) throw new Error(body);
  return performance.now() - startedAt;
}

/** Returns the percentile `ratio` of sorted numbers. */
function percentile(sorted: readonly number[], ratio: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * ratio))] as number;
}

function print(results: readonly Result[]): void {
  const ms = (value: number): string => `${value.toFixed(0)} ms`;
  const rows = results.map(({ name, homepageRuns, statements: total, sqlMs, waits, loadMs }) => [
    name,
    String(homepageRuns),
    String(total),
    ms(sqlMs),
    ms(percentile(waits, 0.5)),
    ms(percentile(waits, 0.99)),
    ms(percentile(waits, 1)),
    ms(loadMs),
    `${(percentile(waits, 0.99) / loadMs).toFixed(2)}x`,
  ]);
  const table = [
    ["", "homepage SQL", "all SQL", "SQL time", "p50", "p99", "max", "single load", "p99 / load"],
    ...rows,
  ];
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? [];
  console.log();
  for (const row of table)
    console.log(
      row
        .map((value, column) => (column === 0 ? value.padEnd(widths[0] ?? 0) : value.padStart(widths[column] ?? 0)))
        .join("   "),
    );
}
