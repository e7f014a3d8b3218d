/**
 * One process of a test: a cache on a real server, and a source that counts its loads in Redis. It
 * runs the commands that its parent process sends. The environment provides PORT, PREFIX and
 * LEASE_MS, and MEMCACHED_PORT if the cache is on memcached instead of Redis, SQLITE_PATH and SQLITE_MODULE if it is in a file, or
 * NODE_REDIS if its client is one of node-redis. With STORE_FIRST, it stores values before it answers; with FUNCTION, its source is a
 * function in the place of a loader.
 */

import { memcachedStore } from "@graphql-cached/memcached";
import { sqliteStore } from "@graphql-cached/sqlite";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { parse } from "graphql";
import { createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import type { Store } from "graphql-cached/store";
import { Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";
import { createClient } from "redis";
import { Admission } from "../../src/core/responses/admission.js";
import { opensWith } from "./sqlite-files.js";

export type Command =
  /** Reads `key` `times` times in parallel. A load takes `loadMs`. */
  | { readonly do: "read"; readonly key: string; readonly times: number; readonly loadMs: number }
  /** Asks for the page `times` times in parallel. An execution takes `loadMs`, and is counted as a load. */
  | { readonly do: "execute"; readonly times: number; readonly loadMs: number }
  /** Reads `key`, and stops this process with its answer, as serverless platforms do. First awaits `cache.settled()` if it `settles`. */
  | { readonly do: "answer"; readonly key: string; readonly loadMs: number; readonly settles: boolean }
  | { readonly do: "invalidate"; readonly tag: string };

export interface Report {
  /** The distinct values that were read. */
  readonly values: readonly unknown[];
}

const { PORT, PREFIX, LEASE_MS, MEMCACHED_PORT, NODE_REDIS, STORE_FIRST, SQLITE_PATH, SQLITE_MODULE, FUNCTION } =
  process.env;
const client = new Redis(Number(PORT), "127.0.0.1");

async function connect(): Promise<Store> {
  if (SQLITE_PATH !== undefined) return sqliteStore({ path: SQLITE_PATH, database: opensWith(SQLITE_MODULE ?? "") });
  if (MEMCACHED_PORT !== undefined)
    return memcachedStore({ client: new MemcacheClient({ server: `127.0.0.1:${MEMCACHED_PORT}`, noDelay: true }) });
  if (NODE_REDIS === undefined) return redisStore({ client });
  return redisStore({ client: await createClient({ socket: { port: Number(PORT) } }).connect() });
}

const cache = createCache<{ loadMs: number }>({
  defaultScope: "PUBLIC",
  store: await connect(),
  prefix: PREFIX ?? "",
  leases: { leaseMs: Number(LEASE_MS) },
  storage: { storeTimeoutMs: 1_000, storeBeforeResponse: STORE_FIRST !== undefined },
  privacy: { sharedContextKeys: ["loadMs"] },
});

const settings = { name: "Key", maxAge: 60, tags: (key: string) => [key] };
type KeyContext = { readonly loadMs: number };
const makeFunction = () =>
  cache.wrap({
    ...settings,
    context: (_key: string, context: KeyContext) => context,
    load: (_key: string, context: KeyContext) => load(context),
  });
const makeLoader = () => {
  const loader = cache.loader<string, string>({
    ...settings,
    batch: async (ids, context) => {
      const value = await load(context);
      return ids.map(() => value);
    },
  });
  return (key: string, context: KeyContext) => loader(context).load(key);
};
const readKey = FUNCTION === undefined ? makeLoader() : makeFunction();

async function load({ loadMs }: { readonly loadMs: number }): Promise<string> {
  const version = await client.get(`${PREFIX}:version`);
  await client.multi().incr(`${PREFIX}:loads`).pexpire(`${PREFIX}:loads`, 60_000).exec();
  process.send?.("loading");
  await new Promise((resolve) => setTimeout(resolve, loadMs));
  return `version ${version}`;
}

const schema = makeExecutableSchema({
  typeDefs: /* GraphQL */ `
    directive @cacheControl(maxAge: Int) on FIELD_DEFINITION
    type Query { page: String! @cacheControl(maxAge: 60) }
  `,
  resolvers: { Query: { page: (_: unknown, __: unknown, context: { readonly loadMs: number }) => load(context) } },
});
const document = parse("{ page }");
// As if the page had been asked for before: it is stored at the first request.
Admission.prototype.isKnown = () => true;

async function askForPage({ times, loadMs }: Extract<Command, { do: "execute" }>): Promise<Report> {
  const results = await Promise.all(
    Array.from({ length: times }, () => cache.execute({ schema, document, contextValue: { loadMs } })),
  );
  return { values: [...new Set(results.map(({ data, errors }) => errors?.[0]?.message ?? data?.page))] };
}

async function read({ key, times, loadMs }: Extract<Command, { do: "read" }>): Promise<Report> {
  // One request per read, so that none is answered from the memory of a request.
  const values = await Promise.all(Array.from({ length: times }, () => readKey(key, { loadMs })));
  return { values: [...new Set(values)] };
}

async function answer({ key, loadMs, settles }: Extract<Command, { do: "answer" }>): Promise<void> {
  const report = await read({ do: "read", key, times: 1, loadMs });
  if (settles) await cache.settled();
  process.send?.(report);
  process.kill(process.pid, "SIGSTOP");
}

process.on("message", async (command: Command) => {
  if (command.do === "answer") await answer(command);
  else if (command.do === "read") process.send?.(await read(command));
  else if (command.do === "execute") process.send?.(await askForPage(command));
  else process.send?.(await cache.invalidateTags([command.tag]).then(() => ({ values: [] })));
});
process.once("disconnect", () => process.exit(0));
process.send?.("ready");
