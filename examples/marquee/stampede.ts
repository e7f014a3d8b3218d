/**
 * Four server processes, one database, one Redis, and two hundred callers of a cold homepage at the same moment: without a cache, with a cache
 * in each process, and with graphql-cached on Redis. Look for how often the homepage's SQL runs, and how long the unluckiest caller waits.
 *
 *   npm run stampede                          starts a Redis of its own
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
import { TOP_SQL } from "./resolvers.js";
import { PULL } from "./site.js";

const PROCESSES = 4;
const REQUESTS = 50;
/** Two hundred requests take 110 ms of these processes when new, and 30 ms once V8 has compiled what they run: after some fifty rounds. */
const WARM_UP_ROUNDS = 60;
const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS });
const HOMEPAGE = "{ top { title } }";
/** Lists that nobody else asks for: each length is a cold page of its own that costs what the homepage costs. */
const LONE_LENGTHS = [31, 32, 33, 34, 35];
const VARIANTS = [
  ["none", "without cache"],
  ["process", "a cache in each process"],
  ["redis", "graphql-cached on Redis"],
] as const;
/** `npm run stampede -- redis` runs one variant only, which takes seconds. */
const wanted = process.argv.slice(2);

interface Result {
  readonly name: string;
  readonly homepageRuns: number;
  readonly statements: number;
  readonly waits: readonly number[];
  /** How long the homepage's SQL took in the burst, of several runs the longest; it tells a slow database from a slow cache. */
  readonly sqlMs: number;
  /** How long a caller waits for such a page with nobody else asking: the median of several. */
  readonly loadMs: number;
}

const statements: { readonly sql: string; readonly tookMs: number }[] = [];
const lab = process.env.REDIS_URL === undefined ? new RedisLab() : undefined;
console.log("opening the film database (the first start builds it, which takes some seconds) …");
const database = await openDatabase({ onStatement: (sql, tookMs) => statements.push({ sql, tookMs }) });
try {
  const redisUrl = process.env.REDIS_URL ?? `redis://127.0.0.1:${(await lab?.standalone())?.port}`;
  console.log(`${PROCESSES} server processes, ${REQUESTS} requests to each at the same moment, the homepage cold.`);
  console.log(
    "Each process has answered other pages before, lists of other lengths among them, so that code is compiled and",
  );
  console.log("connections are open. A lone load is such a list, cold, while nobody else asks.\n");
  const results: Result[] = [];
  for (const [mode, name] of VARIANTS) {
    if (wanted.length > 0 && !wanted.includes(mode)) continue;
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
    for (const [nth, n] of LONE_LENGTHS.entries())
      loads.push(await ask(urls[nth % urls.length] as string, `{ top(n: ${n}) { title } }`));
    // These pages hold the homepage's films, too: they are forgotten, so that the homepage is cold to the last film.
    const tags = (await database.query(TOP_SQL, [Math.max(...LONE_LENGTHS), PULL])).map(({ id }) => `Movie:${id}`);
    await Promise.all(servers.map(({ child }) => forget(child, tags)));
    statements.length = 0;
    const waits = await burst(urls, HOMEPAGE);
    const runs = statements.filter(({ sql }) => sql === TOP_SQL);
    return {
      name,
      homepageRuns: runs.length,
      statements: statements.length,
      waits: waits.sort((a, b) => a - b),
      sqlMs: Math.max(...runs.map(({ tookMs }) => tookMs)),
      loadMs: at(
        loads.sort((a, b) => a - b),
        0.5,
      ),
    };
  } finally {
    await Promise.all(servers.map(({ child }) => stop(child)));
  }
}

/** Opens connections and has code compiled, by pages that are not the homepage. */
async function warmUp(urls: readonly string[]): Promise<void> {
  for (const [index, url] of urls.entries()) await ask(url, `{ top(n: ${20 + index}) { title } }`);
  for (let round = 0; round < WARM_UP_ROUNDS; round++)
    await burst(urls, `{ movie(id: ${1 + (round % 10)}) { title similar { title } } }`);
}

/** Has a server process invalidate tags, and waits until it has. */
async function forget(child: ChildProcess, tags: readonly string[]): Promise<void> {
  const forgotten = new Promise<void>((resolve) => {
    child.on("message", (message: object) => "forgotten" in message && resolve());
  });
  child.send({ forget: tags });
  await forgotten;
}

function start(
  db: OpenDatabase,
  env: Record<string, string>,
): { readonly child: ChildProcess; readonly ready: Promise<string> } {
  const file = fileURLToPath(new URL("./stampede-server.ts", import.meta.url));
  const child = fork(file, { env: { ...process.env, ...env }, execArgv: ["--import", "tsx"] });
  const ready = new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`a server process ended with ${code}`)));
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
  const gone = once(child, "exit");
  child.kill("SIGKILL");
  await gone;
}

function burst(urls: readonly string[], query: string): Promise<number[]> {
  return Promise.all(urls.flatMap((url) => Array.from({ length: REQUESTS }, () => ask(url, query))));
}

/** Milliseconds until the answer is there, whole. */
async function ask(url: string, query: string): Promise<number> {
  const startedAt = performance.now();
  const sent = request(url, { method: "POST", agent, headers: { "content-type": "application/json" } }).end(
    JSON.stringify({ query }),
  );
  const [response] = (await once(sent, "response")) as [IncomingMessage];
  const answer = await text(response);
  if (answer.includes('"errors"')) throw new Error(answer);
  return performance.now() - startedAt;
}

/** The wait that `share` of the sorted ones stay below. */
function at(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] as number;
}

function print(results: readonly Result[]): void {
  const ms = (value: number): string => `${value.toFixed(0)} ms`;
  const rows = results.map(({ name, homepageRuns, statements: total, sqlMs, waits, loadMs }) => [
    name,
    String(homepageRuns),
    String(total),
    ms(sqlMs),
    ms(at(waits, 0.5)),
    ms(at(waits, 0.99)),
    ms(at(waits, 1)),
    ms(loadMs),
    `${(at(waits, 0.99) / loadMs).toFixed(2)}x`,
  ]);
  const table = [["", "homepage SQL", "all SQL", "SQL took", "p50", "p99", "max", "lone load", "p99 / load"], ...rows];
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? [];
  console.log();
  for (const row of table)
    console.log(
      row
        .map((stored, column) => (column === 0 ? stored.padEnd(widths[0] ?? 0) : stored.padStart(widths[column] ?? 0)))
        .join("   "),
    );
}
