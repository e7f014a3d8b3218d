/**
 * The demo of `npm start`: one page on which a reader can try what the cache does. This program serves the page,
 * sends its queries to the server processes, and counts the SQL statements that they run meanwhile. The code to
 * copy from is in site.ts; everything here is only for the demo.
 *
 *   npm start                          with a Redis server of its own, if it finds one
 *   REDIS_URL=redis://… npm start      with yours
 *   PORT=4001 npm start
 */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { Agent, createServer, type IncomingMessage, type RequestListener, request } from "node:http";
import { text } from "node:stream/consumers";
import { CONNECTIONS, type Statement, simulatedDatabase } from "./database.js";
import { FILMS } from "./films.js";
import { findRedis, type SiteProcess, startProcess } from "./fleet.js";

const VISITORS = 200;
const REPEATS = 50;
const INSPECTOR = "/inspector";
const { PORT = "4000", REDIS_URL } = process.env;
const agent = new Agent({ keepAlive: true });
const listeners = new Set<(statement: Statement) => void>();
const database = simulatedDatabase((statement) => {
  for (const listener of listeners) listener(statement);
});

/** How many processes have started. */
let started = 0;

/** Handlers of other pages, by path. */
const mounts: Record<string, RequestListener> = {};

/** A GraphQL request of the page. */
interface Ask {
  readonly query: string;
  readonly variables?: object;
  readonly user?: string | undefined;
  /** The index of the process that answers. Default: the first. */
  readonly process?: number;
  /** Whether it is sent to the server with `responses: true`. */
  readonly responses?: boolean;
  /** What to do with the cache: `true` traces the request, "BYPASS" goes past the cache. */
  readonly cached?: true | "BYPASS";
}

interface Answer {
  /** The id of the process that answered. */
  readonly pid: number;
  readonly tookMs: number;
  readonly body: { readonly data?: unknown; readonly extensions?: { readonly cached?: object } };
}

/** Sends a GraphQL request to a process, as a browser would. */
async function send({ process: index = 0, responses = false, user, query, variables, cached }: Ask): Promise<Answer> {
  const site = await processes[index];
  if (site === undefined) throw new Error(`expected the index of one of ${processes.length} processes, got ${index}`);
  const headers = { "content-type": "application/json", ...(user === undefined ? {} : { "x-user": user }) };
  const startedAt = performance.now();
  return new Promise((resolve, reject) => {
    request(responses ? site.responses : site.fields, { method: "POST", agent, headers }, async (response) => {
      const body = JSON.parse(await text(response));
      resolve({ pid: site.pid, tookMs: performance.now() - startedAt, body });
    })
      .once("error", reject)
      .end(JSON.stringify({ query, variables, extensions: { cached } }));
  });
}

/** Does some work and returns its result, with the statements that have run meanwhile. */
async function recorded<Result extends object>(
  work: () => Promise<Result>,
): Promise<Result & { statements: readonly Statement[] }> {
  const statements: Statement[] = [];
  const listener = (statement: Statement): void => void statements.push(statement);
  listeners.add(listener);
  try {
    return { ...(await work()), statements };
  } finally {
    listeners.delete(listener);
  }
}

/** Sends a query 200 times at once, in turn to all processes. */
async function sendMany(ask: Ask): Promise<{ tookMs: number }> {
  await Promise.all(processes);
  const startedAt = performance.now();
  await Promise.all(Array.from({ length: VISITORS }, (_, nth) => send({ ...ask, process: nth % processes.length })));
  return { tookMs: performance.now() - startedAt };
}

/** Asks until everything comes from the cache, then 50 times, one after the other. Returns the median time. */
async function medianOfHits(ask: Ask): Promise<Answer> {
  let last = await send(ask);
  for (let nth = 0; nth < 20 && JSON.stringify(last.body.extensions).includes('"loaded"'); nth++)
    last = await send(ask);
  const { cached: _, ...untraced } = ask;
  const times: number[] = [];
  for (let nth = 0; nth < REPEATS; nth++) times.push((await send(untraced)).tookMs);
  const [tookMs = last.tookMs] = times.sort((one, other) => one - other).slice(REPEATS / 2);
  return { ...last, tookMs };
}

async function clear(): Promise<object> {
  await (await processes[0])?.clear();
  return {};
}

/** What the page can ask for, by path. */
const actions: Record<string, (body: Ask) => Promise<object>> = {
  "/state": async () => ({
    isReady: (await processes[0]) !== undefined, // the page waits for the first process
    store: redis !== undefined ? "own" : REDIS_URL !== undefined ? "given" : "memory",
    version: redis?.version,
    isRunning: redis?.isRunning() ?? true,
    processes: processes.length,
    started,
    connections: CONNECTIONS,
    films: FILMS.map(({ id, title }) => ({ id, title })),
    hasInspector: mounts[INSPECTOR] !== undefined,
  }),
  "/ask": (ask) => recorded(() => send(ask)),
  "/burst": (ask) => recorded(() => sendMany(ask)),
  "/median": (ask) => recorded(() => medianOfHits(ask)),
  "/clear": clear,
  "/stop-store": async () => ({ stopped: await redis?.stop() }),
  "/start-store": async () => ({ started: await redis?.start() }),
};

const PAGE: Record<string, readonly [file: string, type: string]> = {
  "/": ["page.html", "text/html; charset=utf-8"],
  "/page.css": ["page.css", "text/css; charset=utf-8"],
  "/page.js": ["page.js", "text/javascript; charset=utf-8"],
  "/schema.graphql": ["schema.graphql", "text/plain; charset=utf-8"],
};
/** The page loads its own files and asks its own server, and nothing else. */
const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const server = createServer(async (incoming, outgoing) => {
  const { pathname } = new URL(incoming.url ?? "/", "http://localhost");
  const [file, type] = PAGE[pathname] ?? [];
  const mounted = mounts[pathname];
  if (mounted !== undefined) return mounted(incoming, outgoing);
  try {
    if (incoming.method === "GET" && file !== undefined && type !== undefined) {
      const content = readFileSync(new URL(file, import.meta.url));
      outgoing.writeHead(200, { "content-type": type, "content-security-policy": CSP, "cache-control": "no-store" });
      return outgoing.end(content);
    }
    const reply = await act(pathname, incoming);
    outgoing.writeHead(reply === undefined ? 404 : 200, { "content-type": "application/json" });
    outgoing.end(JSON.stringify(reply ?? { error: "not found" }));
  } catch (error) {
    outgoing.writeHead(500, { "content-type": "application/json" });
    outgoing.end(JSON.stringify({ error: String(error) }));
  }
});

async function act(pathname: string, incoming: IncomingMessage): Promise<object | undefined> {
  // A page of another origin cannot send JSON without a permission, which this server never gives.
  if (incoming.method !== "POST" || incoming.headers["content-type"] !== "application/json") return undefined;
  const body = JSON.parse(await text(incoming));
  if (pathname !== "/graphql") return actions[pathname]?.(body);
  // For GraphQL clients such as curl: the answer of the first process as it is.
  const { query, variables, extensions } = body;
  const user = incoming.headers["x-user"]?.toString();
  return (await send({ query, variables, user, cached: extensions?.cached })).body;
}

server.once("error", (error: NodeJS.ErrnoException) => {
  if (error.code !== "EADDRINUSE") throw error;
  console.error(`port ${PORT} is in use; choose another one, for example: PORT=${Number(PORT) + 1} npm start`);
  process.exit(1);
});
// The server processes end with this one, and so does the Redis server.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.once(signal, () => process.exit());
await once(server.listen(Number(PORT), "127.0.0.1"), "listening");

const redis = REDIS_URL === undefined ? findRedis() : undefined;
const storeUrl = REDIS_URL ?? redis?.socket;
// A prefix for each run: the database starts with the same ratings again, so entries of an earlier run are outdated.
const prefix = `marquee-${Date.now().toString(36)}`;
const start = async (): Promise<SiteProcess> => {
  const site = await startProcess(database, storeUrl, prefix);
  started++;
  return site;
};
// The page can be opened while they start: what needs a process waits for it. The second one starts after the first,
// which has most of the work then. Without Redis, it would share nothing with the first.
const first = start();
const processes = storeUrl === undefined ? [first] : [first, first.then(start)];
await redis?.start();
const address = server.address();
const port = typeof address === "object" ? address?.port : PORT;
console.log(`The demo is at http://127.0.0.1:${port}/. Stop it with Ctrl+C.`);

// It starts long after the page can be opened, like the processes whose cache it shows.
const { inspectorHandler } = await import("@graphql-cached/inspector");
mounts[INSPECTOR] = inspectorHandler({
  endpoint: (await first).fields,
  allow: () => true,
});
