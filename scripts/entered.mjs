/**
 * Counts the files and functions of `src` that one request enters, by V8's precise coverage: how long the path is that a reader has to
 * follow, and that a request takes.
 *
 *   npm run entered             a warm hit and a cold miss on Redis: `graphql` executes one cached field, with default options
 *   npm run entered -- --list   the functions as well, by file
 */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { Session } from "node:inspector/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath, pathToFileURL } from "node:url";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { execute, parse } from "graphql";
import { Redis } from "ioredis";
import { setupRedis } from "./setup-redis.mjs";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const WARM_UPS = 200;
/** Timers of the cache may enter functions of their own meanwhile, so the shortest of several requests counts. */
const REQUESTS = 11;
/** By then, the value of a load is stored. */
const STORED_MS = 30;
const QUERY = parse("query ($id: ID!) { movie(id: $id) { title } }");
const TYPE_DEFS = `
  type Query { movie(id: ID!): Movie @cached(maxAge: 60, tags: ["Movie:{$args.id}"]) }
  type Movie { id: ID! title: String }
`;

const folder = mkdtempSync(join(tmpdir(), "graphql-cached-entered-"));
const port = await freePort();
const server = spawn(setupRedis().server, ["--port", `${port}`, "--bind", "127.0.0.1", "--save", ""]);
try {
  for await (const chunk of server.stdout) if (`${chunk}`.includes("Ready to accept connections")) break;
  build();
  await measure();
} finally {
  server.kill();
  rmSync(folder, { recursive: true, force: true });
}

async function freePort() {
  const probe = createServer().listen(0, "127.0.0.1");
  await once(probe, "listening");
  const { port } = probe.address();
  probe.close();
  return port;
}

/** Compiles `src` without the helper functions that other tools add. */
function build() {
  const { status, stdout } = spawnSync(
    process.execPath,
    [
      join(ROOT, "node_modules/typescript/bin/tsc"),
      "-p",
      "tsconfig.build.json",
      "--declaration",
      "false",
      "--noCheck",
      "--outDir",
      folder,
    ],
    { cwd: ROOT, encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stdout);
  writeFileSync(join(folder, "package.json"), JSON.stringify({ type: "module" }));
  symlinkSync(join(ROOT, "node_modules"), join(folder, "node_modules"));
}

async function measure() {
  const load = (path) => import(pathToFileURL(join(folder, path)).href);
  const { applyCached, cachedTypeDefs, createCache } = await load("index.js");
  const { redisStore } = await load("stores/redis/index.js");
  const client = new Redis(port, "127.0.0.1");
  const cache = createCache({ defaultScope: "PUBLIC", store: redisStore({ client }), prefix: "entered" });
  const resolvers = { Query: { movie: async (_, { id }) => ({ id, title: "Alien" }) } };
  const schema = applyCached(makeExecutableSchema({ typeDefs: [cachedTypeDefs, TYPE_DEFS], resolvers }), cache);
  const ask = async (id) => {
    const { errors } = await execute({ schema, document: QUERY, variableValues: { id }, contextValue: {} });
    if (errors !== undefined) throw errors[0];
  };
  for (let nth = 0; nth < WARM_UPS; nth++) await ask(`warm-${nth % 10}`);
  const session = new Session();
  session.connect();
  await session.post("Profiler.enable");
  await session.post("Profiler.startPreciseCoverage", { callCount: true, detailed: false });
  const entered = async (request) => {
    await session.post("Profiler.takePreciseCoverage");
    await request();
    const { result } = await session.post("Profiler.takePreciseCoverage");
    return functionsOf(result);
  };
  print("A warm hit", await shortest(() => entered(() => ask("warm-0"))));
  let cold = 0;
  print(
    "A cold miss",
    await shortest(() =>
      entered(async () => {
        await ask(`cold-${cold++}`);
        await pause(STORED_MS);
      }),
    ),
  );
  session.disconnect();
  await cache.close();
  client.disconnect();
}

/** Returns the names of the functions that were called, by file. */
function functionsOf(scripts) {
  const base = pathToFileURL(join(folder, "/")).href;
  const files = new Map();
  for (const { url, functions } of scripts) {
    if (!url.startsWith(base) || url.includes("/node_modules/")) continue;
    const called = functions.filter(({ ranges: [range] }) => range.count > 0);
    const names = called.map(({ functionName, ranges }) => functionName || `(at ${ranges[0].startOffset})`);
    if (names.length > 0) files.set(url.slice(base.length).replace(/\.js$/, ".ts"), names);
  }
  return files;
}

function functionCount(files) {
  return [...files.values()].reduce((sum, names) => sum + names.length, 0);
}

async function shortest(count) {
  let least = await count();
  for (let nth = 1; nth < REQUESTS; nth++) {
    const files = await count();
    if (functionCount(files) < functionCount(least)) least = files;
  }
  return least;
}

function print(what, files) {
  console.log(`${what} enters ${files.size} files and ${functionCount(files)} functions`);
  if (!process.argv.includes("--list")) return;
  for (const [file, names] of [...files].sort(([one], [other]) => one.localeCompare(other)))
    console.log(`  ${file} ${names.length}: ${names.join(", ")}`);
}
