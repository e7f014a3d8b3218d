/**
 * One process of a release: its schema with the cache on a real Redis, and a client that compares
 * each response with the one that the release gives without a cache. It runs the commands that its
 * parent process sends. The environment provides PORT, PREFIX and RELEASE.
 */
import { type GraphQLSchema, graphql } from "graphql";
import { applyCached, createCache } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Redis } from "ioredis";
import { queryOf, type Release, schemaOf } from "./releases.js";

export type ReleaseCommand =
  /** Reads every field for `ids` ids, `rounds` times each, after `epoch` writes to the source. */
  | { readonly do: "read"; readonly ids: number; readonly rounds: number; readonly epoch: number }
  | { readonly do: "invalidateTags"; readonly tags: readonly string[] }
  | { readonly do: "invalidate"; readonly coordinate: string; readonly args: Readonly<Record<string, unknown>> };

export interface ReleaseReport {
  /** Differences to the response without a cache, as text. */
  readonly wrong: readonly string[];
  /** Loads by field. */
  readonly loads: Readonly<Record<string, number>>;
  /** Reads by coordinate and outcome. */
  readonly outcomes: Readonly<Record<string, Readonly<Record<string, number>>>>;
}

/** Requests that run at the same time. */
const CONCURRENCY = 4;

const { PORT, PREFIX = "", RELEASE } = process.env;
const release = RELEASE as Release;
const client = new Redis(Number(PORT), "127.0.0.1");
let epoch = 0;
let loads: Record<string, number> = {};
let outcomes: Record<string, Record<string, number>> = {};

const cache = createCache({
  defaultScope: "PUBLIC",
  store: redisStore({ client }),
  prefix: PREFIX,
  // Nothing expires or is refreshed during the test, so every load has another cause.
  defaults: { jitter: 0, earlyRefresh: 0 },
  storage: { storeTimeoutMs: 5_000 },
  logger: { info: () => undefined, warn: () => undefined },
  onEvent: (event) => {
    if (event.name !== "entry.served") return;
    outcomes[event.coordinate] ??= {};
    const own = outcomes[event.coordinate] as Record<string, number>;
    own[event.outcome] = (own[event.outcome] ?? 0) + 1;
  },
});
const cached = applyCached(
  schemaOf(
    release,
    (name, value) => {
      loads[name] = (loads[name] ?? 0) + 1;
      return value(epoch);
    },
    cache as never,
  ),
  cache,
);
const uncached = schemaOf(release, (_name, value) => value(epoch), undefined);

const answer = async (schema: GraphQLSchema, id: number): Promise<Record<string, unknown>> => {
  const { data, errors = [] } = await graphql({ schema, source: queryOf(release, id), contextValue: {} });
  const plain = JSON.parse(JSON.stringify(data ?? {})) as Record<string, unknown>;
  for (const { path, message } of errors) plain[String(path?.[0])] = message;
  return plain;
};

async function read({ ids, rounds }: Extract<ReleaseCommand, { do: "read" }>): Promise<readonly string[]> {
  const expected = await Promise.all(Array.from({ length: ids }, (_, id) => answer(uncached, id)));
  const wrong = new Set<string>();
  const requests = Array.from({ length: ids * rounds }, (_, nth) => nth % ids);
  const reader = async (): Promise<void> => {
    for (let id = requests.shift(); id !== undefined; id = requests.shift()) {
      const got = await answer(cached, id);
      for (const [field, value] of Object.entries(expected[id] ?? {}))
        if (JSON.stringify(got[field]) !== JSON.stringify(value))
          wrong.add(`${field}: expected ${JSON.stringify(value)}, got ${JSON.stringify(got[field])}`);
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, reader));
  return [...wrong];
}

process.on("message", async (command: ReleaseCommand) => {
  loads = {};
  outcomes = {};
  let wrong: readonly string[] = [];
  if (command.do === "read") {
    epoch = command.epoch;
    wrong = await read(command);
  } else if (command.do === "invalidateTags") await cache.invalidateTags(command.tags);
  else await cache.invalidate({ coordinate: command.coordinate, args: command.args });
  process.send?.({ wrong, loads, outcomes } satisfies ReleaseReport);
});
// A process that is stopped finishes what it has begun, as in a deployment.
process.once("disconnect", async () => {
  await cache.close();
  process.exit(0);
});
process.send?.("ready");
