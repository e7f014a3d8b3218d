/**
 * What Bun and Deno must do with the installed package as Node.js does. Copied into a project and run there:
 *
 *   program.mjs <port of Redis> <folder>                    prints a line for each check
 *   program.mjs <port of Redis> <folder> <store> <prefix>   another process of it: reads when it gets a line, and answers with one
 */
import { AsyncLocalStorage } from "node:async_hooks";
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { setTimeout as pause } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { ApolloServer } from "@apollo/server";
import { startStandaloneServer } from "@apollo/server/standalone";
import { sqliteStore } from "@graphql-cached/sqlite";
import { buildSchema, graphql } from "graphql";
import { applyCached, cachedTypeDefs, createCache } from "graphql-cached";
import { cachedPlugin } from "graphql-cached/apollo";
import { redisStore } from "graphql-cached/redis";
import { useCached } from "graphql-cached/yoga";
import { createYoga } from "graphql-yoga";
import { Redis } from "ioredis";
import { createClient } from "redis";

const [redisPort, folder, storeOfOther, prefixOfOther] = process.argv.slice(2);
const runtime = globalThis.Deno !== undefined ? "deno" : process.versions.bun !== undefined ? "bun" : "node";
const PROGRAM = fileURLToPath(import.meta.url);
const run = (args) =>
  spawn(process.execPath, [...(runtime === "deno" ? ["run", "-A"] : []), ...args], {
    stdio: ["pipe", "pipe", "inherit"],
  });
const PROCESSES = 3;
const LOAD_MS = 300;

function check(what, got, expected) {
  if (JSON.stringify(got) !== JSON.stringify(expected))
    throw new Error(`${what}: expected ${JSON.stringify(expected)}, got ${JSON.stringify(got)}`);
}

const STORES = {
  ioredis: async () => {
    const client = new Redis(Number(redisPort), "127.0.0.1");
    return { store: redisStore({ client }), end: () => client.quit() };
  },
  "node-redis": async () => {
    const client = createClient({ socket: { host: "127.0.0.1", port: Number(redisPort) } });
    await client.connect();
    return { store: redisStore({ client }), end: () => client.close() };
  },
  "node:sqlite": async () => ({ store: sqliteStore({ path: join(folder, "cache.db") }), end: () => undefined }),
};

const typeDefs = `
  type Query {
    text(id: ID!): String @cached(maxAge: 60, tags: ["Text:{$args.id}"])
    stale(id: ID!): String @cached(maxAge: 60, staleWhileRevalidate: 60, tags: ["Text:all"])
    mine: String @cached(maxAge: 60, scope: PRIVATE)
  }
  type Mutation {
    change(id: ID!): Boolean @invalidates(tags: ["Text:{$args.id}"])
  }
`;
const ofRequest = new AsyncLocalStorage();

/** One server process. Its values are compressed and encrypted. */
async function startProcess(storeName, prefix) {
  const { store, end } = await STORES[storeName]();
  const outcomes = [];
  const cache = createCache({
    defaultScope: "PUBLIC",
    store,
    prefix,
    memory: { maxStalenessMs: 2_000 },
    logger: { info: () => undefined, warn: (line) => console.error(line) },
    storage: { storeTimeoutMs: 5_000, compressAboveBytes: 1_000 },
    encryption: { keys: [{ id: "one", key: Buffer.alloc(32, 7).toString("base64") }] },
    identify: ({ userId }) => userId,
    onEvent: (event) => event.name === "entry.served" && outcomes.push(event.outcome),
  });
  let loads = 0;
  const load = async (note = "") => {
    loads++;
    await pause(LOAD_MS);
    return `${process.pid} ${note} ${"x".repeat(5_000)}`;
  };
  const schema = buildSchema(cachedTypeDefs + typeDefs);
  const resolvers = {
    Query: {
      text: () => load(ofRequest.getStore()),
      stale: () => load(String(loads)),
      mine: (_, __, { userId }) => load(userId),
    },
    Mutation: { change: () => true },
  };
  for (const [type, fields] of Object.entries(resolvers))
    for (const [field, resolve] of Object.entries(fields)) schema.getType(type).getFields()[field].resolve = resolve;
  const applied = applyCached(schema, cache);
  const ask = async (source, userId = "ann") => {
    const { data, errors } = await graphql({ schema: applied, source, contextValue: { userId } });
    if (errors !== undefined) throw errors[0];
    return Object.values(data)[0];
  };
  return {
    ask,
    cache,
    schema: applied,
    outcomes,
    loads: () => loads,
    end: async () => {
      await cache.close();
      await end();
    },
  };
}

async function beOtherProcess() {
  const { ask, loads, end } = await startProcess(storeOfOther, prefixOfOther);
  console.log("ready");
  for await (const query of createInterface({ input: process.stdin })) {
    const before = loads();
    const value = await ask(query);
    console.log(JSON.stringify([value, loads() - before]));
  }
  await end();
}

async function startOther(storeName, prefix) {
  const child = run([PROGRAM, redisPort, folder, storeName, prefix]);
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  check("another process", (await lines.next()).value, "ready");
  return {
    ask: async (query) => {
      child.stdin.write(`${query}\n`);
      return JSON.parse((await lines.next()).value);
    },
    end: async () => {
      child.stdin.end();
      const [code] = await once(child, "exit");
      check("exit code of another process", code, 0);
    },
  };
}

async function checkStore(storeName) {
  const prefix = randomUUID();
  const first = await startProcess(storeName, prefix);
  const others = await Promise.all(Array.from({ length: PROCESSES }, () => startOther(storeName, prefix)));
  const [other] = others;

  const text = await ofRequest.run("ann's request", () => first.ask('{ text(id: "1") }'));
  check("a load in the context of its request", text.split(" ")[1], "ann's");
  await first.cache.settled();
  check("a hit", [(await first.ask('{ text(id: "1") }')) === text, first.outcomes], [true, ["loaded", "hit"]]);
  check("a hit of another process", await other.ask('{ text(id: "1") }'), [text, 0]);

  const answers = await Promise.all([
    first.ask('{ text(id: "2") }'),
    ...others.map(({ ask }) => ask('{ text(id: "2") }')),
  ]);
  const values = answers.map((answer) => (typeof answer === "string" ? answer : answer[0]));
  const loads = answers.slice(1).reduce((sum, [, more]) => sum + more, first.loads() - 1);
  check("one load of all processes", [new Set(values).size, loads], [1, 1]);

  await other.ask('mutation { change(id: "1") }');
  const until = performance.now() + 2_000;
  while ((await first.ask('{ text(id: "1") }')) === text)
    if (performance.now() > until) throw new Error("an invalidation by another process: not seen after two seconds");

  check(
    "PRIVATE values",
    await Promise.all(["ann", "bob"].map(async (user) => (await first.ask("{ mine }", user)).split(" ")[1])),
    ["ann", "bob"],
  );

  const stale = await first.ask('{ stale(id: "1") }');
  await first.cache.settled();
  await first.cache.invalidateTags(["Text:all"], { soft: true });
  check("a stale value while it is refreshed", await first.ask('{ stale(id: "1") }'), stale);
  await first.cache.settled();
  check("the refreshed value", (await first.ask('{ stale(id: "1") }')) !== stale, true);

  for (const { end } of others) await end();
  await first.end();
  return `${1 + PROCESSES} processes: hits, one load, memory, invalidation, PRIVATE, refresh; compressed and encrypted`;
}

/** Asks twice over HTTP, and returns the outcomes. */
async function askTwice(url, outcomes, settled) {
  for (let nth = 0; nth < 2; nth++) {
    const response = await fetch(url, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ query: '{ text(id: "1") }' }),
    });
    const { errors } = await response.json();
    if (errors !== undefined) throw new Error(errors[0].message);
    await settled();
  }
  check("outcomes", outcomes, ["loaded", "hit"]);
  return "loaded, hit";
}

const CHECKS = {
  ...Object.fromEntries(Object.keys(STORES).map((name) => [name, () => checkStore(name)])),
  "Apollo Server": async () => {
    const { schema, cache, outcomes, end } = await startProcess("ioredis", randomUUID());
    const server = new ApolloServer({ schema, plugins: [cachedPlugin(cache)] });
    const { url } = await startStandaloneServer(server, {
      listen: { port: 0, host: "127.0.0.1" },
      context: async () => ({ userId: "ann" }),
    });
    const result = await askTwice(url, outcomes, () => cache.settled());
    await server.stop();
    await end();
    return result;
  },
  "GraphQL Yoga": async () => {
    const { schema, cache, outcomes, end } = await startProcess("node-redis", randomUUID());
    const yoga = createYoga({ schema, plugins: [useCached(cache)], context: { userId: "ann" }, logging: false });
    const server = SERVERS[runtime]((request) => yoga.fetch(request));
    const result = await askTwice(`http://127.0.0.1:${await server.port()}/graphql`, outcomes, () => cache.settled());
    await server.stop();
    await end();
    return result;
  },
  "graphql-cached check": async () => {
    const file = join(folder, "schema.graphql");
    writeFileSync(file, "type Query { top: Int @cached(maxAge: 60, scope: PUBLIC) }");
    const child = run([
      fileURLToPath(new URL("./node_modules/graphql-cached/dist/tools/cli/bin.js", import.meta.url)),
      "check",
      file,
    ]);
    let output = "";
    child.stdout.on("data", (chunk) => {
      output += chunk;
    });
    const [code] = await once(child, "close");
    check("its result", [code, output.split("\n")[0]], [0, "0 errors, 0 warnings."]);
    return output.split("\n")[0];
  },
};

/** The HTTP servers of the runtimes themselves. */
const SERVERS = {
  node: (handle) => {
    const server = createServer(async (request, response) => {
      const url = `http://${request.headers.host}${request.url}`;
      const { headers, method } = request;
      const answer = await handle(new Request(url, { method, headers, body: Readable.toWeb(request), duplex: "half" }));
      response.writeHead(answer.status).end(await answer.text());
    }).listen(0, "127.0.0.1");
    const listening = once(server, "listening");
    return { port: () => listening.then(() => server.address().port), stop: () => server.close() };
  },
  bun: (handle) => {
    const server = Bun.serve({ port: 0, hostname: "127.0.0.1", fetch: handle });
    return { port: async () => server.port, stop: () => server.stop(true) };
  },
  deno: (handle) => {
    const server = Deno.serve({ port: 0, hostname: "127.0.0.1", onListen: () => undefined }, handle);
    return { port: async () => server.addr.port, stop: () => server.shutdown() };
  },
};

if (storeOfOther === undefined) await runChecks();
else await beOtherProcess();

/** A process that has passed ends by itself, since nothing is left that keeps it alive. */
async function runChecks() {
  for (const [name, check] of Object.entries(CHECKS)) {
    try {
      console.log(`${name}: ${await check()}`);
    } catch (error) {
      console.error(`${name}: ${error.stack}`);
      process.exit(1);
    }
  }
}
