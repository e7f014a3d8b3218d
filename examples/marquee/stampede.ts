/**
 * Four server processes, one database, one Redis, and two hundred callers of a cold homepage at the same moment: without a cache, with a cache
 * in each process, and with graphql-cached on Redis. Look for how often the homepage's SQL runs, and how long the unluckiest caller waits.
 *
 *   npm run stampede                          starts a Redis of its own
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

const PROCESSES = 4;
const REQUESTS = 50;
const agent = new Agent({ keepAlive: true, maxSockets: REQUESTS });
const HOMEPAGE = "{ top { title } }";
const VARIANTS = [
  ["none", "without cache"],
  ["process", "a cache in each process"],
  ["redis", "graphql-cached on Redis"],
] as const;

interface Result {
  readonly name: string;
  readonly homepageRuns: number;
  readonly statements: number;
  readonly waits: readonly number[];
  /** How long the homepage's SQL took, of several runs the longest. */
  readonly loadMs: number;
}

const statements: { readonly sql: string; readonly tookMs: number }[] = [];
const lab = process.env.REDIS_URL === undefined ? new RedisLab() : undefined;
console.log("opening the film database (the first start builds it, which takes some seconds) …");
const database = await openDatabase({ onStatement: (sql, tookMs) => statements.push({ sql, tookMs }) });
try {
  const redisUrl = process.env.REDIS_URL ?? `redis://127.0.0.1:${(await lab?.standalone())?.port}`;
  console.log(`${PROCESSES} server processes, ${REQUESTS} requests to each at the same moment, the homepage cold.`);
  console.log("Each process has answered other pages before, so that code is compiled and connections are open.\n");
  const results: Result[] = [];
  for (const [mode, name] of VARIANTS) {
    console.log(
      `… ${name}${mode === "none" ? ": the database has one connection, so this takes a minute and a half" : ""}`,
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
    // Pages of single films, as many at a time as will come, open the connections and has the code compiled; the homepage stays cold.
    for (let round = 0; round < 10; round++)
      await burst(urls, `{ movie(id: ${1 + round}) { title similar { title } } }`);
    for (const [index, url] of urls.entries()) await ask(url, `{ top(n: ${20 + index}) { title } }`);
    statements.length = 0;
    const waits = await burst(urls, HOMEPAGE);
    const runs = statements.filter(({ sql }) => sql === TOP_SQL);
    const loadMs = Math.max(...runs.map(({ tookMs }) => tookMs));
    return {
      name,
      homepageRuns: runs.length,
      statements: statements.length,
      waits: waits.sort((a, b) => a - b),
      loadMs,
    };
  } finally {
    await Promise.all(servers.map(({ child }) => stop(child)));
  }
}

function start(
  db: OpenDatabase,
  env: Record<string, string>,
): { readonly child: ChildProcess; readonly ready: Promise<string> } {
  const file = fileURLToPath(new URL("./stampede-server.ts", import.meta.url));
  const child = fork(file, { env: { ...process.env, ...env }, execArgv: ["--import", "tsx"] });
  const ready = new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`a server process ended with ${code}`)));
    child.on("message", (message: { url: string } | { id: number; sql: string; params: unknown[] }) => {
      if ("url" in message) return resolve(message.url);
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

function print(results: readonly Result[]): void {
  const at = (waits: readonly number[], share: number): number =>
    waits[Math.min(waits.length - 1, Math.floor(waits.length * share))] as number;
  const ms = (value: number): string => `${value.toFixed(0)} ms`;
  const rows = results.map(({ name, homepageRuns, statements: total, waits, loadMs }) => [
    name,
    String(homepageRuns),
    String(total),
    ms(at(waits, 0.5)),
    ms(at(waits, 0.99)),
    ms(at(waits, 1)),
    ms(loadMs),
    `${(at(waits, 0.99) / loadMs).toFixed(2)}x`,
  ]);
  const table = [["", "homepage SQL", "all SQL", "p50", "p99", "max", "one load", "p99 / load"], ...rows];
  const widths = table[0]?.map((_, column) => Math.max(...table.map((row) => row[column]?.length ?? 0))) ?? [];
  console.log();
  for (const row of table)
    console.log(
      row
        .map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0)))
        .join("   "),
    );
}
