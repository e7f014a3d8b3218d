import { resolve } from "node:path";
import { CachedError } from "graphql-cached";
import {
  type Clock,
  checkOptionNames,
  checkPrefix,
  type Decision,
  decisions,
  describeSetting,
  type Grant,
  newTokens,
  REPORTS_WANTED_MS,
  readHead,
  type Store,
  type StoredEntry,
  type StoreNames,
  systemClock,
  transitions,
} from "graphql-cached/store";
import { AwaitedLoads } from "./awaited-loads.js";
import { findDatabase, type OpenDatabase, type Work } from "./connection.js";
import { DatabaseFile, ForeignFile, readPointer } from "./database-file.js";
import {
  appendClock,
  findEntry,
  knownEntry,
  makeRoom,
  putEntry,
  readContent,
  readInstant,
  readLogFrom,
  removeEntry,
  sizeOf,
  writeInstant,
} from "./entries.js";
import { Transactions } from "./transactions.js";

/**
 * Creates a store in a file of this machine, shared by all of its processes that use the same path
 * and prefix. Each operation is one transaction of SQLite, on the calling thread, which no write
 * waits for a disk in. Throws `CACHED_OPTION_INVALID` if an option is invalid, or if something else
 * is at the path.
 */
export function sqliteStore(options: SqliteStoreOptions): Store {
  const known = ["path", "database", "maxBytes", "clock"] satisfies (keyof SqliteStoreOptions)[];
  checkOptionNames(options ?? {}, "sqliteStore", known);
  const { path, database, maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options ?? {};
  if (typeof path !== "string" || path === "" || path.startsWith(":") || path.startsWith("file:"))
    throw invalid(
      "`path`",
      "the path of a file",
      describeSetting(path),
      path === ":memory:" ? "use memoryStore() for one process" : 'pass a path such as "/var/cache/shop/cache.db"',
    );
  if (database !== undefined && typeof database !== "function")
    throw invalid(
      "`database`",
      "a function that opens a file",
      describeSetting(database),
      "pass (file) => new Database(file): the store opens a new file when the old one was deleted",
    );
  if (!Number.isInteger(maxBytes) || maxBytes < LEAST_MAX_BYTES)
    throw invalid(
      "`maxBytes`",
      `an integer of at least ${LEAST_MAX_BYTES}`,
      describeSetting(maxBytes),
      "pass a number of bytes, or omit it",
    );
  const absolute = resolve(path);
  try {
    readPointer(absolute);
  } catch (error) {
    // Anything else may pass, and is met again by each operation until then.
    if (error instanceof ForeignFile) throw new CachedError("CACHED_OPTION_INVALID", error.message);
  }
  const find = database === undefined ? findDatabase : async () => database;
  return storeIn(new DatabaseFile(absolute, clock, find), clock, maxBytes);
}

/** Options of `sqliteStore`. */
export interface SqliteStoreOptions {
  /**
   * The same file for all processes, on a local disk. It says which database is in use; that one is
   * in a folder beside it, which has the same name with `-` and 16 digits. The store makes,
   * replaces and deletes both, and missing folders above.
   */
  readonly path: string;
  /**
   * Opens the database in a file. Default: `DatabaseSync` of node:sqlite, or `Database` of
   * better-sqlite3 if Node.js does not have that. The store calls it again when the database has
   * been replaced, and closes what it returns.
   */
  readonly database?: OpenDatabase;
  /**
   * Maximum size of the database in bytes. What was written first is dropped first. An entry that
   * is larger than a quarter of it is not stored. An integer of at least 4 MiB. Default: 256 MiB.
   */
  readonly maxBytes?: number;
  /** Source of time and timers; `wallTime` is the clock of the store. Default: the system clock. */
  readonly clock?: Clock;
}

const MIB = 1024 * 1024;
const DEFAULT_MAX_BYTES = 256 * MIB;
/** The most reports that are read at once. */
const MAX_REPORTS = 1_000;
/** The log of the clock and the reports take some of it. */
const LEAST_MAX_BYTES = 4 * MIB;
/** The part of `maxBytes` that one entry may take. */
const LARGEST_PART = 1 / 4;

function invalid(where: string, expected: string, got: string, remedy: string): CachedError {
  return new CachedError("CACHED_OPTION_INVALID", `sqliteStore: ${where}: expected ${expected}, got ${got}; ${remedy}`);
}

function storeIn(file: DatabaseFile, clock: Clock, maxBytes: number): Store {
  const transactions = new Transactions(file, clock);
  const awaited = new AwaitedLoads(transactions, clock);
  let names: StoreNames | undefined;
  let uses = 0;
  const clockName = (): string => names?.clock ?? "";
  const reportsName = (): string => names?.reports ?? "";

  /** Decides about each item in turn. */
  function changeEach<Item extends { readonly key: string }, Result>(
    work: Work,
    items: readonly Item[],
    decide: (item: Item, index: number) => Decision<Result>,
  ): Result[] {
    let written = 0;
    const results = items.map((item, index) => {
      const { result, change } = decide(item, index);
      if (change !== undefined) {
        written++;
        putEntry(work, item.key, change.to);
        awaited.update(item.key, change.to?.gen ?? "");
      }
      return result;
    });
    if (written > 0) makeRoom(work, written, maxBytes);
    return results;
  }

  /** The same in a transaction of its own. What another release has written stays. */
  const transitionsOf = <Item extends { readonly key: string }, Result>(
    items: readonly Item[],
    decide: (before: StoredEntry | undefined, item: Item, work: Work) => Decision<Result>,
  ): Promise<Result[]> =>
    transactions.write((work) => changeEach(work, items, (item) => decide(knownEntry(work, item.key), item, work)));

  return {
    name: "sqlite",
    read: (keys) =>
      transactions.read((work) => ({
        readings: keys.map((key) => ({ kind: "read", entry: knownEntry(work, key), now: work.now })),
        clock: readContent(work.db, clockName()),
      })),
    appendClock: (records, lostEpoch) =>
      transactions.write((work) => appendClock(work, clockName(), records, lostEpoch)),
    readClock: (from) => transactions.read(({ db }) => readLogFrom(db, clockName(), from)),
    async acquire(requests, times, { epoch, position }, holder) {
      const lateAt = clock.now() + times.patienceMs;
      const tokens = newTokens(requests.length, holder);
      const grants = await transactions.write((work): Grant[] => {
        const head = readHead(readContent(work.db, clockName()));
        if (head?.epoch !== epoch || clock.now() > lateAt) return requests.map(() => ({ kind: "expired" }));
        const origin = { epoch, position: Math.min(position, head.position) };
        return changeEach(work, requests, (request, index): Decision<Grant> => {
          const token = tokens[index] as string;
          const before = findEntry(work, request.key);
          if (before === "unknown-format") return { result: { kind: "unknown-format" } };
          const { stored, grant } = transitions.acquire(before, request, token, times, origin, work.now);
          // That others wait is written once, for the inspection: they find out by themselves when
          // the load has ended.
          const isChanged = grant.kind === "granted" || (grant.kind === "busy" && before?.hasWaiters !== true);
          return { result: grant, change: isChanged ? { to: stored } : undefined };
        });
      }, times.patienceMs);
      for (const [index, { key }] of requests.entries()) {
        const grant = grants[index];
        if (grant?.kind === "busy") awaited.add(key, grant.gen, grant.remainingMs);
      }
      return grants;
    },
    storeValues: (requests) =>
      transitionsOf(requests, (before, request, { now }) =>
        decisions.storeValue(before, request, now, (stored) => sizeOf(request.key, stored) > maxBytes * LARGEST_PART),
      ),
    renew: (holds, times) => transitionsOf(holds, (before, hold, { now }) => decisions.renew(before, hold, times, now)),
    release: (releases) => transitionsOf(releases, (before, end, { now }) => decisions.release(before, end, now)),
    async remove(keys, { soft = false } = {}) {
      const items = keys.map((key) => ({ key }));
      if (soft) await transitionsOf(items, decisions.softInvalidate);
      else {
        await transactions.write(({ db }) => {
          for (const key of keys) removeEntry(db, key);
        });
        for (const key of keys) awaited.update(key, "");
      }
    },
    writeReport: (process, report, ttlMs) =>
      transactions.write(({ db, now }) => {
        db.run("DELETE FROM reports_1 WHERE drop_at <= ?", now);
        const sql = "INSERT OR REPLACE INTO reports_1 (name, process, drop_at, bytes) VALUES (?, ?, ?, ?)";
        db.run(sql, reportsName(), process, now + ttlMs, report);
        return now < readInstant(db, `${reportsName()}:wanted`);
      }),
    readReports: () =>
      transactions.write(({ db, now }) => {
        writeInstant(db, `${reportsName()}:wanted`, now + REPORTS_WANTED_MS);
        const sql = "SELECT bytes FROM reports_1 WHERE name = ? AND drop_at > ? ORDER BY drop_at DESC LIMIT ?";
        return db.all<{ readonly bytes: Uint8Array }>(sql, reportsName(), now, MAX_REPORTS).map(({ bytes }) => bytes);
      }),
    open(opened, { wake }) {
      checkPrefix(names?.clock, opened.clock, "sqliteStore");
      names = opened;
      const stopWaking = awaited.open(wake);
      uses++;
      file.use();
      let isOpen = true;
      return () => {
        if (!isOpen) return;
        isOpen = false;
        stopWaking();
        if (--uses === 0) file.close();
      };
    },
  };
}
