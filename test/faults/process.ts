/**
 * One process of a fault run: a cache with its default settings on a store behind a bad network, readers that
 * read all the time, and a writer that changes values at the source and invalidates them. The parent process is
 * the source. It is the only part that no fault affects, and also carries what the processes have confirmed.
 *
 * Imports the package by its name, so that the same file runs against the sources and against a packed build.
 */
import { makeExecutableSchema } from "@graphql-tools/schema";
import { graphql } from "graphql";
import { applyCached, type CacheEvent, cachedTypeDefs, createCache } from "graphql-cached";
import { memcachedStore } from "graphql-cached/memcached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";

/** What the parent passes as FAULT_PROCESS. */
export interface ProcessSettings {
  readonly store: "redis" | "cluster" | "memcached";
  /** Where the store is reached, and for a Cluster also where its nodes believe to be reached. */
  readonly addresses: readonly { readonly host: string; readonly port: number; readonly actualPort: number }[];
  readonly prefix: string;
  readonly seed: number;
}

export type ToProcess =
  | { readonly do: "answer"; readonly nth: number; readonly version: number }
  /** The invalidation of this version of `key` was confirmed. */
  | { readonly do: "confirmed"; readonly key: string; readonly version: number }
  /** How many reads there are for one invalidation. */
  | { readonly do: "pace"; readonly reads: number }
  /** Whether the store may have lost confirmed invalidations, so that stale reads are counted apart. */
  | { readonly do: "expect-loss"; readonly isExpected: boolean };

export type FromProcess =
  | { readonly do: "ready" }
  | { readonly do: "load" | "write"; readonly nth: number; readonly key: string }
  | { readonly do: "loaded"; readonly key: string }
  | { readonly do: "confirmed"; readonly key: string; readonly version: number }
  | { readonly do: "count"; readonly counts: Counts };

/** What a process has seen since it began. */
export interface Counts {
  reads: number;
  hits: number;
  loads: number;
  confirmed: number;
  unconfirmed: number;
  /** Reads that returned a version older than the one confirmed before they began. */
  stale: number;
  /** The same while confirmed invalidations may have been lost. */
  staleAfterLoss: number;
  /** The number of hits when `staleAfterLoss` was last increased. */
  hitsAtLastLoss: number;
  /** Reads that ended with an error. */
  failed: number;
  /** The largest number of loads of one key that ran at a time. */
  maxLoads: number;
  /** The first few violations. */
  readonly violations: string[];
  readonly outcomes: Record<string, number>;
}

const IDS = 4;
const READERS = 4;
const REPORT_MS = 25;
const { store, addresses, prefix, seed } = JSON.parse(process.env.FAULT_PROCESS ?? "") as ProcessSettings;

let state = seed;
/** A number from 0 to 1, the same sequence for the same seed (mulberry32). */
function random(): number {
  state = (state + 0x6d2b79f5) | 0;
  let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
  mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
  return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
}
const pick = <T>(items: readonly T[]): T => items[Math.floor(random() * items.length)] as T;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));
const send = (message: FromProcess): void => void process.send?.(message);

const counts: Counts = {
  reads: 0,
  hits: 0,
  loads: 0,
  confirmed: 0,
  unconfirmed: 0,
  stale: 0,
  staleAfterLoss: 0,
  hitsAtLastLoss: 0,
  failed: 0,
  maxLoads: 0,
  violations: [],
  outcomes: {},
};
const confirmedVersions = new Map<string, number>();
const confirm = (key: string, version: number): void =>
  void confirmedVersions.set(key, Math.max(version, confirmedVersions.get(key) ?? 0));
let readsPerWrite = Number.POSITIVE_INFINITY;
let isLossExpected = false;

/** Questions to the parent that have no answer yet. */
const questions = new Map<number, (version: number) => void>();
let nextQuestion = 0;
const ask = (about: "load" | "write", key: string): Promise<number> =>
  new Promise((resolve) => {
    questions.set(nextQuestion, resolve);
    send({ do: about, nth: nextQuestion++, key });
  });

const running = new Map<string, number>();
/** The source. It reads the version first, and takes a while to return it. */
async function load(key: string): Promise<number> {
  counts.loads++;
  const atOnce = (running.get(key) ?? 0) + 1;
  running.set(key, atOnce);
  if (atOnce > 2) note(`${atOnce} loads of ${key} at a time`);
  counts.maxLoads = Math.max(counts.maxLoads, atOnce);
  const version = await ask("load", key);
  await pause(random() < 0.05 ? 200 + 300 * random() : 5 + 35 * random());
  running.set(key, (running.get(key) as number) - 1);
  send({ do: "loaded", key });
  return version;
}

function note(violation: string): void {
  if (counts.violations.length < 10) counts.violations.push(violation);
}

/** With the options that docs/stores.md recommends, or those of the client alone. */
function connect(): Redis | Cluster {
  const [first] = addresses;
  const recommended = { maxRetriesPerRequest: 0, enableOfflineQueue: false, connectTimeout: 1_000 };
  if (store === "redis") {
    const address = { host: first?.host as string, port: first?.port as number };
    // With its own options, the client sends commands without a reply again after a reconnect.
    return new Redis(seed % 2 === 0 ? { ...address, ...recommended } : address);
  }
  const natMap = Object.fromEntries(
    addresses.map(({ host, port, actualPort }) => [`${host}:${actualPort}`, { host, port }]),
  );
  return new Cluster(
    addresses.map(({ host, port }) => ({ host, port })),
    { natMap, redisOptions: seed % 2 === 0 ? { maxRetriesPerRequest: 0, connectTimeout: 1_000 } : {} },
  );
}

const cache = createCache({
  store:
    store === "memcached"
      ? memcachedStore({
          client: new MemcacheClient({ server: `${addresses[0]?.host}:${addresses[0]?.port}`, noDelay: true }),
        })
      : redisStore({ client: connect().on("error", () => undefined) }),
  prefix,
  logger: { info: () => undefined, warn: () => undefined },
  onEvent: countOutcome,
});

function countOutcome(event: CacheEvent): void {
  if (event.name === "entry.served" && event.outcome === "hit") counts.hits++;
  const outcome =
    event.name === "entry.served"
      ? event.outcome
      : event.name === "resolver.bypassed"
        ? event.reason
        : event.name === "write.finished" && !event.isStored
          ? "refused"
          : undefined;
  if (outcome !== undefined) counts.outcomes[outcome] = (counts.outcomes[outcome] ?? 0) + 1;
}

const schema = applyCached(
  makeExecutableSchema({
    typeDefs: [
      cachedTypeDefs,
      /* GraphQL */ `
        type Item { id: ID! version: Int! }
        type Query {
          byKey(id: ID!): Int! @cached(maxAge: 60)
          byTag(id: ID!): Int! @cached(maxAge: 60, tags: ["Tag:{$args.id}"])
          byResult(id: ID!): Item! @cached(maxAge: 60, tags: ["Result:{$result.id}"])
        }
      `,
    ],
    resolvers: {
      Query: {
        byKey: (_: unknown, { id }: { id: string }) => load(`byKey ${id}`),
        byTag: (_: unknown, { id }: { id: string }) => load(`byTag ${id}`),
        byResult: async (_: unknown, { id }: { id: string }) => ({ id, version: await load(`byResult ${id}`) }),
      },
    },
  }),
  cache,
);
const items = cache.loader<string, number>({
  name: "Item",
  maxAge: 60,
  tags: (id) => [`Item:${id}`],
  batch: (ids) => Promise.all(ids.map((id) => load(`loader ${id}`))),
});

async function query(source: string): Promise<Record<string, unknown>> {
  const { data, errors } = await graphql({ schema, source, contextValue: {} });
  if (errors !== undefined) throw errors[0];
  return data as Record<string, unknown>;
}

/** How values are read and invalidated: by key, by tag, by a tag of the result, and through a loader. */
const kinds = {
  byKey: {
    read: async (id: string) => (await query(`{ value: byKey(id: "${id}") }`)).value as number,
    invalidate: (id: string) => cache.invalidate({ coordinate: "Query.byKey", args: { id } }),
  },
  byTag: {
    read: async (id: string) => (await query(`{ value: byTag(id: "${id}") }`)).value as number,
    invalidate: (id: string) => cache.invalidateTags([`Tag:${id}`]),
  },
  byResult: {
    read: async (id: string) =>
      ((await query(`{ value: byResult(id: "${id}") { version } }`)).value as { version: number }).version,
    invalidate: (id: string) => cache.invalidateTags([`Result:${id}`]),
  },
  loader: {
    read: (id: string) => items({}).load(id),
    invalidate: (id: string) => cache.invalidateTags([`Item:${id}`]),
  },
};
type Kind = keyof typeof kinds;
/** Twice by key, since only a message of an entry without tags could be mistaken for a later one. */
const KINDS: readonly Kind[] = ["byKey", "byKey", "byTag", "byResult", "loader"];
const anyKey = (): [Kind, string] => [pick(KINDS), String(Math.floor(random() * IDS))];

/** Reads a key, and compares the version with the one that was confirmed before the read began. */
async function read(kind: Kind, id: string): Promise<void> {
  const key = `${kind} ${id}`;
  const confirmed = confirmedVersions.get(key) ?? 0;
  const isAfterLoss = isLossExpected;
  try {
    const version = await kinds[kind].read(id);
    if (version < confirmed && isAfterLoss) {
      counts.staleAfterLoss++;
      counts.hitsAtLastLoss = counts.hits;
    } else if (version < confirmed) {
      counts.stale++;
      note(`stale: ${key} is version ${version} after ${confirmed} was confirmed`);
    }
  } catch (error) {
    counts.failed++;
    note(`failed: ${key}: ${error}`);
  }
  counts.reads++;
}

/**
 * Changes a value at the source and invalidates it, then reads it at once. Every other time, this happens again
 * while the read loads.
 */
async function write(kind: Kind, id: string): Promise<void> {
  const key = `${kind} ${id}`;
  const version = await ask("write", key);
  try {
    await kinds[kind].invalidate(id);
  } catch {
    counts.unconfirmed++;
    return;
  }
  counts.confirmed++;
  confirm(key, version);
  send({ do: "confirmed", key, version });
  const reading = read(kind, id);
  if (random() < 0.5) {
    await pause(15 * random());
    await write(kind, id);
  }
  await reading;
}

process.on("message", (message: ToProcess) => {
  if (message.do === "answer") {
    questions.get(message.nth)?.(message.version);
    questions.delete(message.nth);
  } else if (message.do === "confirmed") {
    confirm(message.key, message.version);
    // As with a hot key, several processes miss it at once.
    const [kind, id] = message.key.split(" ") as [Kind, string];
    if (random() < 0.7) void read(kind, id);
  } else if (message.do === "pace") readsPerWrite = message.reads;
  else isLossExpected = message.isExpected;
});
process.once("disconnect", () => process.exit(0));

async function readForever(): Promise<never> {
  for (;;) {
    const [kind, id] = anyKey();
    const times = random() < 0.2 ? 3 : 1;
    await Promise.all(Array.from({ length: times }, () => read(kind, id)));
    await pause(2 + 10 * random());
  }
}
async function writeForever(): Promise<never> {
  for (let last = 0; ; last = counts.reads) {
    while (counts.reads < last + readsPerWrite) await pause(2);
    await write(...anyKey());
  }
}
for (let nth = 0; nth < READERS; nth++) void readForever();
void writeForever();
setInterval(() => send({ do: "count", counts }), REPORT_MS);
send({ do: "ready" });
