import { resolve } from "node:path";
import { type Cancel, type Clock, systemClock } from "../../core/base/clock.js";
import { CachedError, describeSetting } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { areSameBytes } from "../../core/store/bytes.js";
import { readHead } from "../../core/store/clock-log.js";
import { TOO_LARGE_MARK } from "../../core/store/entry.js";
import type { History, HistoryLimits } from "../../core/store/history.js";
import { newTokens, TOKEN_BYTES } from "../../core/store/lease-token.js";
import type {
  AcquireRequest,
  ClockOrigin,
  Grant,
  Hold,
  LeaseTimes,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreReport,
  StoreRequest,
  Wake,
} from "../../core/store/store.js";
import { type StoredEntry, transitions } from "../../core/store/transitions.js";
import { AwaitedLoads } from "./awaited-loads.js";
import type { Work } from "./connection.js";
import { DatabaseFile, ForeignFile, readPointer } from "./database-file.js";
import { countEntries, findEntry, knownEntry, makeRoom, putEntry, removeEntry, sizeOf, usedBytes } from "./entries.js";
import { readContent, writeContent } from "./named-content.js";
import { appendClock, readLogFrom } from "./sqlite-clock.js";
import { findDatabase, type OpenDatabase } from "./sqlite-database.js";
import { failureOf } from "./sqlite-failure.js";
import { appendHistory, readHistory } from "./sqlite-history.js";
import { SqliteReports } from "./sqlite-reports.js";
import { Transactions } from "./transactions.js";

/** Options of `sqliteStore`. */
export interface SqliteStoreOptions {
  /**
   * The same file for all processes, on a local disk. It says which database is in use; that one is in a folder beside it, which has the
   * same name with `-` and 16 digits. The store makes, replaces and deletes both, and missing folders above.
   */
  readonly path: string;
  /**
   * Opens the database in a file. Default: `DatabaseSync` of node:sqlite, or `Database` of better-sqlite3 if Node.js does not have that.
   * The store calls it again when the database has been replaced, and closes what it returns.
   */
  readonly database?: OpenDatabase;
  /**
   * Maximum size of the database in bytes. What was written first is dropped first. An entry that is larger than a quarter of it is not
   * stored. An integer of at least 4 MiB. Default: 256 MiB.
   */
  readonly maxBytes?: number;
  /** Source of time and timers; `wallTime` is the clock of the store. Default: the system clock. */
  readonly clock?: Clock;
}

const MIB = 1024 * 1024;
const DEFAULT_MAX_BYTES = 256 * MIB;
/** The log of the clock, the history and the reports take some of it. */
const LEAST_MAX_BYTES = 4 * MIB;
/** The part of `maxBytes` that one entry may take. */
const LARGEST_PART = 1 / 4;
/** How long a value that is too large is loaded without a lease. */
const TOO_LARGE_MS = 1_000;

/**
 * Creates a store in a file of this machine, shared by all of its processes that use the same path and prefix. Each operation is one
 * transaction of SQLite, on the calling thread, which no write waits for a disk in. Throws `CACHED_OPTION_INVALID` if an option is
 * invalid, or if something else is at the path.
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
  return new SqliteStore(new DatabaseFile(absolute, clock, find), clock, maxBytes);
}

function invalid(where: string, expected: string, got: string, remedy: string): CachedError {
  return new CachedError("CACHED_OPTION_INVALID", `sqliteStore: ${where}: expected ${expected}, got ${got}; ${remedy}`);
}

class SqliteStore implements Store {
  readonly name = "sqlite";
  readonly reports: SqliteReports;
  readonly #file: DatabaseFile;
  readonly #transactions: Transactions;
  readonly #awaited: AwaitedLoads;
  readonly #clock: Clock;
  readonly #maxBytes: number;
  #names: StoreNames = { wakeChannel: "", invalidationLog: "", clock: "", settings: "" };
  #uses = 0;

  constructor(file: DatabaseFile, clock: Clock, maxBytes: number) {
    this.#file = file;
    this.#transactions = new Transactions(file, clock);
    this.#awaited = new AwaitedLoads(this.#transactions, clock);
    this.reports = new SqliteReports(this.#transactions);
    this.#clock = clock;
    this.#maxBytes = maxBytes;
  }

  read(keys: readonly string[]): Promise<StoreRead> {
    return this.#transactions.read((work) => ({
      readings: keys.map((key): Reading => ({ kind: "read", entry: knownEntry(work, key), now: work.now })),
      clock: readContent(work.db, this.#names.clock),
    }));
  }

  readSettings(): Promise<Uint8Array | undefined> {
    return this.#transactions.read(({ db }) => readContent(db, this.#names.settings));
  }

  replaceSettings(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    return this.#transactions.write(({ db }) => {
      const current = readContent(db, this.#names.settings);
      if (!areSameBytes(current, expected)) return areSameBytes(current, content);
      writeContent(db, this.#names.settings, content);
      return true;
    });
  }

  appendClock(records: readonly Buffer[]): Promise<Buffer> {
    return this.#transactions.write((work) => appendClock(work, this.#names.clock, records));
  }

  readClock(from: number): Promise<Buffer | undefined> {
    return this.#transactions.read(({ db }) => readLogFrom(db, this.#names.clock, from));
  }

  async acquire(
    requests: readonly AcquireRequest[],
    times: LeaseTimes,
    { epoch, position }: ClockOrigin,
    holder?: string,
  ): Promise<Grant[]> {
    const expired: Grant = { kind: "expired" };
    const lateAt = this.#clock.now() + times.patienceMs;
    const tokens = newTokens(requests.length, holder).toString("latin1");
    const grants = await this.#transactions.write((work) => {
      const head = readHead(readContent(work.db, this.#names.clock));
      if (head?.epoch !== epoch || this.#clock.now() > lateAt) return requests.map(() => expired);
      const origin = { epoch, position: Math.min(position, head.position) };
      return this.#change(work, requests, (change, request, index): Grant => {
        const token = tokens.slice(TOKEN_BYTES * index, TOKEN_BYTES * (index + 1));
        const before = findEntry(work, request.key);
        if (before === "unknown-format") return { kind: "unknown-format" };
        const { stored, grant } = transitions.acquire(before, request, token, times, origin, work.now);
        // That others wait is written once, for the inspection: they find out by themselves when the load has ended.
        if (grant.kind === "granted" || (grant.kind === "busy" && before?.hasWaiters !== true)) change(stored);
        return grant;
      });
    }, times.patienceMs);
    for (const [index, grant] of grants.entries())
      if (grant.kind === "busy")
        this.#awaited.add((requests[index] as AcquireRequest).key, grant.gen, grant.remainingMs);
    return grants;
  }

  storeValues(requests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    return this.#transactions.write((work) =>
      this.#change(work, requests, (change, request): StoreOutcome => {
        const { key } = request;
        const before = knownEntry(work, key);
        const { stored, outcome } = transitions.storeValue(before, request, work.now);
        if (outcome === "refused" || before === undefined) return outcome;
        if (stored === undefined || sizeOf(key, stored) <= this.#maxBytes * LARGEST_PART) {
          change(stored);
          return outcome;
        }
        // The mark lets each caller load at once, without a lease.
        const holdMs = TOO_LARGE_MS;
        const tooLarge: Release = { key, token: before.token, outcome: "uncacheable", holdMs, body: TOO_LARGE_MARK };
        change(transitions.release(before, tooLarge, work.now).stored);
        return "unavailable";
      }),
    );
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    return this.#transactions.write((work) =>
      this.#change(work, holds, (change, hold): boolean => {
        const renewed = transitions.renew(knownEntry(work, hold.key), hold, times, work.now);
        if (renewed !== undefined) change(renewed);
        return renewed !== undefined;
      }),
    );
  }

  release(releases: readonly Release[]): Promise<boolean[]> {
    return this.#transactions.write((work) =>
      this.#change(work, releases, (change, release): boolean => {
        const { isHeld, stored } = transitions.release(knownEntry(work, release.key), release, work.now);
        if (isHeld) change(stored);
        return isHeld;
      }),
    );
  }

  async remove(keys: readonly string[]): Promise<void> {
    await this.#transactions.write(({ db }) => {
      for (const key of keys) removeEntry(db, key);
    });
    for (const key of keys) this.#awaited.update(key, "");
  }

  async softInvalidate(keys: readonly string[]): Promise<void> {
    const items = keys.map((key) => ({ key }));
    await this.#transactions.write((work) =>
      this.#change(work, items, (change, { key }): void => {
        const before = knownEntry(work, key);
        if (before !== undefined) change(transitions.softInvalidate(before));
      }),
    );
  }

  inspect(): Promise<StoreReport> {
    return this.#transactions.read(({ db }) => ({
      version: `sqlite ${db.get<{ version: string }>("SELECT sqlite_version() AS version")?.version}`,
      entries: countEntries(db),
      usedBytes: usedBytes(db),
      maxBytes: this.#maxBytes,
      evictionPolicy: "oldest",
    }));
  }

  appendHistory(content: Uint8Array, limits: HistoryLimits): Promise<void> {
    return this.#transactions.write((work) => appendHistory(work, this.#names.invalidationLog, content, limits));
  }

  readHistory(): Promise<History> {
    return this.#transactions.read((work) => readHistory(work, this.#names.invalidationLog));
  }

  isMissingRight(error: unknown): boolean {
    return failureOf(error) === "forbidden";
  }

  open(names: StoreNames, wake: Wake): Cancel {
    if (this.#names.clock !== "" && this.#names.clock !== names.clock)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store`: expected a store that no cache with another `prefix` uses, got one in use; create a sqliteStore for each prefix",
      );
    this.#names = names;
    this.reports.name = names.invalidationLog;
    const stopWaking = this.#awaited.open(wake);
    this.#uses++;
    this.#file.use();
    let isOpen = true;
    return () => {
      if (!isOpen) return;
      isOpen = false;
      stopWaking();
      if (--this.#uses === 0) this.#file.close();
    };
  }

  /** Decides about each item in turn, and writes what `change` is called with as the entry at its key. */
  #change<Item extends { readonly key: string }, Result>(
    work: Work,
    items: readonly Item[],
    decide: (change: (stored: StoredEntry | undefined) => void, item: Item, index: number) => Result,
  ): Result[] {
    let written = 0;
    const results = items.map((item, index) =>
      decide(
        (stored) => {
          written++;
          putEntry(work, item.key, stored);
          this.#awaited.update(item.key, stored?.gen ?? "");
        },
        item,
        index,
      ),
    );
    if (written > 0) makeRoom(work, written, this.#maxBytes);
    return results;
  }
}
