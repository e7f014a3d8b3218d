/**
 * One process of a fault run: a cache with its default settings on a store behind a bad network, readers that
 * read all the time, and a writer that changes values at the source and invalidates them. The parent process is
 * the source. It is the only part that no fault affects, and also carries what the processes have confirmed.
 *
 * Imports the package by its name, so that the same file runs against the sources and against a packed build.
 */

import { AsyncLocalStorage } from "node:async_hooks";
import { memcachedStore } from "@graphql-cached/memcached";
import { makeExecutableSchema } from "@graphql-tools/schema";
import { type DocumentNode, type GraphQLResolveInfo, graphql, parse } from "graphql";
import { applyCached, type CacheEvent, cachedTypeDefs, createCache, resultControl } from "graphql-cached";
import { redisStore } from "graphql-cached/redis";
import { Cluster, Redis } from "ioredis";
import { MemcacheClient } from "memcache-client";

/** What the parent passes as FAULT_PROCESS. */
export interface ProcessSettings {
  readonly store: "redis" | "cluster" | "memcached";
  /** Where the store is reached, and for a Cluster also where its nodes believe to be reached. */
  readonly addresses: readonly { readonly host: string; readonly port: number; readonly actualPort: number }[];
  /** The user of the client, if it is not the default one. */
  readonly user?: { readonly username: string; readonly password: string };
  readonly prefix: string;
  readonly seed: number;
  /** How values are invalidated. A kind that is listed twice is used twice as often. */
  readonly kinds: readonly InvalidationKind[];
  /** Whether whole responses are stored as well, which contain what fields and loaders have read. */
  readonly keepsResponses: boolean;
  /** Whether processes keep values in memory. */
  readonly keepsInMemory: boolean;
  /** The values of release 2 have one more property. */
  readonly release: 1 | 2;
  /** What other processes have confirmed before this one starts, as versions by key. */
  readonly confirmed: Readonly<Record<string, number>>;
}

/** One way to invalidate values; each has a field or loader of its own. */
export type InvalidationKind =
  | "key"
  | "tag"
  | "result-tag"
  | "loader-tag"
  | "field"
  | "loader"
  | "loader-id"
  | "soft-tag"
  | "clear";

export type ToProcess =
  | { readonly do: "answer"; readonly nth: number; readonly version: number }
  /** The invalidation of this version of `key` was confirmed. */
  | { readonly do: "confirmed"; readonly key: string; readonly version: number }
  /** Some process of a release was served this version of `key` as a hit. */
  | { readonly do: "refreshed"; readonly key: string; readonly version: number; readonly release: 1 | 2 }
  /** How many reads there are for one invalidation. */
  | { readonly do: "pace"; readonly reads: number }
  /** The password of the user, from the next connection on. */
  | { readonly do: "password"; readonly password: string }
  /** Read this key now, whose value is not kept. */
  | { readonly do: "join"; readonly id: string }
  /** Invalidate this many random tags, in one call. */
  | { readonly do: "invalidate-tags"; readonly count: number }
  /** Invalidate random tags, one in each call. */
  | { readonly do: "storm"; readonly perSecond: number; readonly forMs: number }
  /** Whether the store may have lost confirmed invalidations, so that stale reads are counted apart. */
  | { readonly do: "expect-loss"; readonly isExpected: boolean };

export type FromProcess =
  | { readonly do: "ready" }
  | { readonly do: "load" | "write"; readonly nth: number; readonly key: string }
  | { readonly do: "loaded"; readonly key: string }
  | { readonly do: "confirmed"; readonly key: string; readonly version: number }
  | { readonly do: "refreshed"; readonly key: string; readonly version: number; readonly release: 1 | 2 }
  /** The read that `join` asked for has ended, or the call that `invalidate-tags` asked for. */
  | { readonly do: "joined" }
  | { readonly do: "count"; readonly counts: Counts };

/** What a process has seen since it began. */
export interface Counts {
  reads: number;
  hits: number;
  loads: number;
  confirmed: number;
  unconfirmed: number;
  /**
   * Reads that returned a version older than the one confirmed before they began. After a soft invalidation, only
   * those count that were hits, or began after a hit had shown a later version to a process of the same release.
   */
  stale: number;
  /** The other reads that returned an older version after a soft invalidation. */
  softlyStale: number;
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
/** How long a load takes that a convoy waits for. */
const CONVOY_LOAD_MS = 2_000;
const { store, addresses, user, prefix, seed, kinds, keepsResponses, keepsInMemory, release, confirmed } = JSON.parse(
  process.env.FAULT_PROCESS ?? "",
) as ProcessSettings;

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
  softlyStale: 0,
  staleAfterLoss: 0,
  hitsAtLastLoss: 0,
  failed: 0,
  maxLoads: 0,
  violations: [],
  outcomes: {},
};
const confirmedVersions = new Map(Object.entries(confirmed));
/**
 * What this process has invalidated, whether that was confirmed or not: it may not read anything older, whatever the store
 * loses.
 */
const ownVersions = new Map<string, number>();
/** The latest version that a hit has shown to any process of this release, for values that are invalidated softly. */
const refreshedVersions = new Map<string, number>();
const raise = (versions: Map<string, number>, key: string, version: number): void =>
  void versions.set(key, Math.max(version, versions.get(key) ?? 0));
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
  counts.maxLoads = Math.max(counts.maxLoads, atOnce);
  if (atOnce > 2) note(`${atOnce} loads of ${key} at a time`);
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
    const address = { host: first?.host as string, port: first?.port as number, ...user };
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

const client = store === "memcached" ? undefined : connect().on("error", () => undefined);
const cache = createCache({
  defaultScope: "PUBLIC",
  store:
    client === undefined
      ? memcachedStore({
          client: new MemcacheClient({ server: `${addresses[0]?.host}:${addresses[0]?.port}`, noDelay: true }),
        })
      : redisStore({ client }),
  prefix,
  ...(keepsInMemory ? {} : { memory: false }),
  logger: { info: () => undefined, warn: () => undefined },
  onEvent: countOutcome,
});

/**
 * How a read of the field that is invalidated softly ended, and that of the response that it is in, if they did not bypass
 * the cache. What an earlier read refreshes in the background reads the field as well.
 */
interface SoftRead {
  field?: string;
  response?: string;
}
const softReads = new AsyncLocalStorage<SoftRead>();

function countOutcome(event: CacheEvent): void {
  const softRead = softReads.getStore();
  if (event.name === "entry.served" && softRead !== undefined) {
    if (event.coordinate === "Query.softTag") softRead.field = event.outcome;
    if (event.coordinate === "responses") softRead.response ??= event.outcome;
  }
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

const byTag = loaderOf("ByTag", "loader-tag");
const whole = loaderOf("Whole", "loader");
const byId = loaderOf("ById", "loader-id");
const value = async (key: string): Promise<object> => {
  const version = await load(key);
  return release === 1 ? { version } : { version, label: `version ${version}` };
};
const resolve =
  (kind: InvalidationKind) =>
  (_: unknown, { id }: { id: string }) =>
    value(`${kind} ${id}`);
const schema = applyCached(
  makeExecutableSchema({
    typeDefs: [
      cachedTypeDefs,
      /* GraphQL */ `
        directive @cacheControl(maxAge: Int) on FIELD_DEFINITION
        type Item { version: Int! ${release === 1 ? "" : "label: String"} }
        type TaggedItem { id: ID! version: Int! ${release === 1 ? "" : "label: String"} }
        type Query {
          key(id: ID!): Item! @cached(maxAge: 60)
          tag(id: ID!): Item! @cached(maxAge: 60, tags: ["Tag:{$args.id}"])
          resultTag(id: ID!): TaggedItem! @cached(maxAge: 60, tags: ["Result:{$result.id}"])
          field(id: ID!): Item! @cached(maxAge: 60)
          softTag(id: ID!): Item! @cached(maxAge: 60, tags: ["Soft:{$args.id}"])
          clear(id: ID!): Item! @cached(maxAge: 60)
          unkept(id: ID!): Item! @cached(maxAge: 60)
          byTag(id: ID!): Item! @cacheControl(maxAge: 60)
          whole(id: ID!): Item! @cacheControl(maxAge: 60)
          byId(id: ID!): Item! @cacheControl(maxAge: 60)
        }
      `,
    ],
    resolvers: {
      Query: {
        key: resolve("key"),
        tag: resolve("tag"),
        resultTag: async (_: unknown, { id }: { id: string }) => ({ id, ...(await value(`result-tag ${id}`)) }),
        field: resolve("field"),
        softTag: resolve("soft-tag"),
        clear: resolve("clear"),
        byTag: (_: unknown, { id }: { id: string }, context: object) => byTag(context).load(id),
        whole: (_: unknown, { id }: { id: string }, context: object) => whole(context).load(id),
        byId: (_: unknown, { id }: { id: string }, context: object) => byId(context).load(id),
        unkept: async (_: unknown, { id }: { id: string }, __: unknown, info: GraphQLResolveInfo) => {
          resultControl(info).set({ maxAge: 0 });
          const version = await ask("load", `unkept ${id}`);
          await pause(CONVOY_LOAD_MS);
          send({ do: "loaded", key: `unkept ${id}` });
          return { version };
        },
      },
    },
  }),
  cache,
);

type Versioned = { readonly version: number };
const documents = new Map<string, DocumentNode>();
function documentOf(source: string): DocumentNode {
  const document = documents.get(source) ?? parse(source);
  documents.set(source, document);
  return document;
}
const fieldOf =
  (name: string) =>
  async (id: string): Promise<number> => {
    const source = `{ value: ${name}(id: "${id}") { version } }`;
    const { data, errors } = keepsResponses
      ? await cache.execute({ schema, document: documentOf(source), contextValue: {} })
      : await graphql({ schema, source, contextValue: {} });
    if (errors !== undefined) throw errors[0];
    return (data as { value: Versioned }).value.version;
  };
function loaderOf(name: string, kind: InvalidationKind) {
  return cache.loader<string, Versioned>({
    name,
    maxAge: 60,
    version: String(release),
    tags: (id) => [`${name}:${id}`],
    batch: (ids) => Promise.all(ids.map(async (id) => (await value(`${kind} ${id}`)) as Versioned)),
  });
}
/** Reads a loader by itself, or in a response. */
const readerOf =
  (loader: ReturnType<typeof loaderOf>, name: string) =>
  async (id: string): Promise<number> =>
    keepsResponses ? fieldOf(name)(id) : (await loader({}).load(id)).version;

interface KindOfInvalidation {
  read(id: string): Promise<number>;
  invalidate(id: string): Promise<void>;
}
const KINDS: Readonly<Record<InvalidationKind, KindOfInvalidation>> = {
  key: {
    read: fieldOf("key"),
    invalidate: (id) => cache.invalidate({ coordinate: "Query.key", args: { id } }),
  },
  tag: { read: fieldOf("tag"), invalidate: (id) => cache.invalidateTags([`Tag:${id}`]) },
  "result-tag": { read: fieldOf("resultTag"), invalidate: (id) => cache.invalidateTags([`Result:${id}`]) },
  "loader-tag": {
    read: readerOf(byTag, "byTag"),
    invalidate: (id) => cache.invalidateTags([`ByTag:${id}`]),
  },
  field: { read: fieldOf("field"), invalidate: () => cache.invalidate({ coordinate: "Query.field" }) },
  loader: { read: readerOf(whole, "whole"), invalidate: () => cache.invalidate({ loader: "Whole" }) },
  "loader-id": {
    read: readerOf(byId, "byId"),
    invalidate: (id) => cache.invalidate({ loader: "ById", id }),
  },
  "soft-tag": {
    read: fieldOf("softTag"),
    invalidate: (id) => cache.invalidateTags([`Soft:${id}`], { soft: true }),
  },
  clear: { read: fieldOf("clear"), invalidate: () => cache.clear() },
};
const anyKey = (): [InvalidationKind, string] => [pick(kinds), String(Math.floor(random() * IDS))];

/** Reads a key, and compares the version with the one that was confirmed before the read began. */
async function read(kind: InvalidationKind, id: string): Promise<void> {
  if (kind === "soft-tag") return readSoft(id);
  const key = `${kind} ${id}`;
  const confirmed = confirmedVersions.get(key) ?? 0;
  const own = ownVersions.get(key) ?? 0;
  const isAfterLoss = isLossExpected;
  try {
    const version = await KINDS[kind].read(id);
    if (version < own) {
      counts.stale++;
      note(`stale: ${key} is version ${version} in the process that has invalidated it with ${own}`);
    } else if (version < confirmed && isAfterLoss) {
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

/** Whether the others do not read, so that how long a convoy takes does not depend on the speed of the machine. */
let isInConvoy = false;
/** Reads a key whose value is not kept. */
async function join(id: string): Promise<void> {
  isInConvoy = true;
  try {
    await fieldOf("unkept")(id);
  } catch (error) {
    counts.failed++;
    note(`failed: unkept ${id}: ${error}`);
  }
  isInConvoy = false;
  send({ do: "joined" });
}

const otherTag = (): string => `Other:${Math.floor(random() * 1_000_000)}`;

async function invalidateTags(count: number): Promise<void> {
  try {
    await cache.invalidateTags(Array.from({ length: count }, otherTag));
  } catch (error) {
    counts.failed++;
    note(`failed: ${count} tags: ${error}`);
  }
  send({ do: "joined" });
}

async function storm(perSecond: number, forMs: number): Promise<void> {
  const untilAt = performance.now() + forMs;
  while (performance.now() < untilAt) {
    for (let nth = 0; nth < perSecond / 100; nth++) void cache.invalidateTags([otherTag()]).catch(() => undefined);
    await pause(10);
  }
}

let lastSoftRead: Promise<void> = Promise.resolve();
/** One at a time, so that the outcome belongs to this read. */
function readSoft(id: string): Promise<void> {
  lastSoftRead = lastSoftRead.then(async () => {
    const key = `soft-tag ${id}`;
    const confirmedBefore = confirmedVersions.get(key) ?? 0;
    const before = new Map(refreshedVersions);
    const read: SoftRead = {};
    try {
      const version = await softReads.run(read, () => KINDS["soft-tag"].read(id));
      // A response and the value in it are entries of their own: one can be refreshed before the other.
      const isResponse = ["hit", "stale", "coalesced"].includes(read.response ?? "");
      const outcome = isResponse ? read.response : read.field;
      const entry = isResponse ? `response of ${key}` : key;
      const refreshedBefore = before.get(entry) ?? 0;
      if (version < refreshedBefore || (version < confirmedBefore && outcome === "hit")) {
        counts.stale++;
        note(
          `stale: ${entry} is version ${version} (${outcome}) after ${confirmedBefore} was confirmed and ${refreshedBefore} was a hit`,
        );
      } else if (version < confirmedBefore) counts.softlyStale++;
      if (outcome === "hit" && version > refreshedBefore) {
        raise(refreshedVersions, entry, version);
        send({ do: "refreshed", key: entry, version, release });
      }
    } catch (error) {
      counts.failed++;
      note(`failed: ${key}: ${error}`);
    }
    counts.reads++;
  });
  return lastSoftRead;
}

/**
 * Changes a value at the source and invalidates it, then reads it at once. Every other time, this happens again
 * while the read loads.
 */
async function write(kind: InvalidationKind, id: string): Promise<void> {
  const key = `${kind} ${id}`;
  const version = await ask("write", key);
  try {
    await KINDS[kind].invalidate(id);
  } catch {
    counts.unconfirmed++;
    return;
  } finally {
    raise(ownVersions, key, version);
  }
  counts.confirmed++;
  raise(confirmedVersions, key, version);
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
    raise(confirmedVersions, message.key, message.version);
    // As with a hot key, several processes miss it at once.
    const [kind, id] = message.key.split(" ") as [InvalidationKind, string];
    if (random() < 0.7) void read(kind, id);
  } else if (message.do === "refreshed") {
    if (message.release === release) raise(refreshedVersions, message.key, message.version);
  } else if (message.do === "password") (client as Redis).options.password = message.password;
  else if (message.do === "join") void join(message.id);
  else if (message.do === "invalidate-tags") void invalidateTags(message.count);
  else if (message.do === "storm") void storm(message.perSecond, message.forMs);
  else if (message.do === "pace") readsPerWrite = message.reads;
  else isLossExpected = message.isExpected;
});
process.once("disconnect", () => process.exit(0));

async function readForever(): Promise<never> {
  for (;;) {
    while (isInConvoy) await pause(10);
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
