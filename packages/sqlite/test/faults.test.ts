import { existsSync, readdirSync, readFileSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type SqliteDatabase, type SqliteStoreOptions, sqliteStore } from "@graphql-cached/sqlite";
import { FakeClock, settle } from "@graphql-cached/testing";
import { createCache } from "graphql-cached";
import { type Grant, readHead, type Store, type StoreOutcome, writeRecord } from "graphql-cached/store";
import { beforeEach, describe, expect, it } from "vitest";
import { cleanups } from "../../../test/support/cleanups.js";
import { shared } from "../../../test/support/shared-servers.js";
import { opensWith, sqliteFolder } from "../../../test/support/sqlite-files.js";

const open = opensWith(await shared("sqlite"));
const NAMES = { wakeChannel: "wake", reports: "reports", clock: "clock" };
const TIMES = { leaseMs: 3_000, graceMs: 3_000, patienceMs: 500 };
const BODY = Buffer.from("value");

let path: string;
let folder: string;
let clock: FakeClock;
beforeEach(() => {
  const files = sqliteFolder();
  ({ path, folder } = files);
  clock = new FakeClock();
  cleanups.push(files.remove);
});

/** A store on the file of this test, as another process would have one. */
function storeOf(options: Partial<SqliteStoreOptions> = {}): Store & { readonly woken: (string | undefined)[] } {
  const woken: (string | undefined)[] = [];
  const store = sqliteStore({ path, clock, database: open, ...options });
  cleanups.unshift(store.open(NAMES, { wake: (key) => woken.push(key) }));
  return Object.assign(store, { woken });
}

/** The file of the database in use. */
function databaseFile(): string {
  const [, , generation] = readFileSync(path, "latin1").split("\n");
  return join(`${path}-${generation}`, "cache.db");
}

/** Another connection to the database in use, as of a person with a shell. */
function raw(): SqliteDatabase {
  const database = open(databaseFile());
  cleanups.unshift(() => {
    try {
      database.close();
    } catch {
      // The test has closed it.
    }
  });
  return database;
}

const epochOf = async (store: Store): Promise<string | undefined> => readHead(await store.appendClock([]))?.epoch;

async function acquire(store: Store, key: string): Promise<Grant> {
  const { epoch = "", position = 0 } = readHead(await store.appendClock([])) ?? {};
  const [grant] = await store.acquire([{ key, oldestPosition: 0, supersededAt: 0 }], TIMES, { epoch, position });
  return grant as Grant;
}

async function put(store: Store, key: string, body: Uint8Array = BODY, ttlMs = 60_000): Promise<StoreOutcome> {
  const grant = await acquire(store, key);
  if (grant.kind !== "granted") throw new Error(`expected a lease, got ${grant.kind}`);
  const { gen, grantedAt } = grant;
  const request = { key, gen, grantedAt, loadMs: 1, isNegative: false, freshMs: ttlMs, ttlMs, body };
  return (await store.storeValues([request]))[0] as StoreOutcome;
}

async function stateAt(store: Store, key: string): Promise<string | undefined> {
  const [reading] = (await store.read([key])).readings;
  return reading?.kind === "read" ? reading.entry?.state : reading?.kind;
}

const countOf = (database: SqliteDatabase, sql: string): number =>
  (database.prepare(`SELECT count(*) AS count FROM ${sql}`).get() as { count: number }).count;

describe("A database that another process has locked", () => {
  it("is waited for without blocking this process, and written as soon as it is free", async () => {
    const store = storeOf();
    await put(store, "before");
    const other = raw();
    other.exec("BEGIN IMMEDIATE");
    let isDone = false;
    const storing = put(store, "after").then((outcome) => {
      isDone = true;
      return outcome;
    });
    await clock.advance(100);
    expect(isDone).toBe(false);
    // Reads need no lock.
    expect(await stateAt(store, "before")).toBe("value");
    other.exec("COMMIT");
    await clock.advance(100);
    expect(await storing).toBe("stored");
  });

  it("fails the operation if it stays locked", async () => {
    const store = storeOf();
    await put(store, "k");
    raw().exec("BEGIN IMMEDIATE");
    const removing = store.remove(["k"]).catch((error: Error) => error.message);
    await clock.advance(1_000);
    expect(await removing).toContain("database is locked");
  });

  it("grants no lease to a caller that has given up", async () => {
    const store = storeOf();
    const head = readHead(await store.appendClock([]));
    const other = raw();
    other.exec("BEGIN IMMEDIATE");
    const origin = { epoch: head?.epoch ?? "", position: head?.position ?? 0 };
    const acquiring = store
      .acquire([{ key: "k", oldestPosition: 0, supersededAt: 0 }], TIMES, origin)
      .catch(() => "rejected");
    await clock.advance(TIMES.patienceMs);
    other.exec("COMMIT");
    await clock.advance(1_000);
    expect(await acquiring).toBe("rejected");
    expect(await stateAt(store, "k")).toBeUndefined();
  });

  it("is bypassed by requests, which get their value from the source", async () => {
    const store = sqliteStore({ path, database: open });
    const logger = { info: () => undefined, warn: () => undefined };
    const cache = createCache({
      defaultScope: "PUBLIC",
      store,
      prefix: "shop",
      storage: { storeTimeoutMs: 20 },
      logger,
    });
    cleanups.unshift(() => cache.close());
    const loader = cache.loader<number, number>({
      name: "Double",
      maxAge: 60,
      batch: async (ids) => ids.map((id) => 2 * id),
    });
    expect(await loader({}).load(1)).toBe(2);
    raw().exec("BEGIN EXCLUSIVE");
    expect(await loader({}).load(2)).toBe(4);
  });
});

describe("A full disk", () => {
  /** As many pages as the database may have then: SQLite takes the next one for a full disk. */
  const limitedTo = (pages: number) => (file: string) => {
    const database = open(file);
    database.exec(`PRAGMA max_page_count = ${pages}`);
    return database;
  };

  it("takes new values in the place of the oldest ones, and confirms invalidations", async () => {
    const store = storeOf({ database: limitedTo(300) });
    const epoch = await epochOf(store);
    for (let nth = 0; nth < 200; nth++) {
      expect(await put(store, `k${nth}`, Buffer.alloc(10_000))).toBe("stored");
      await store.appendClock([writeRecord({ kind: "hard", subjects: [nth] })]);
    }
    expect(await stateAt(store, "k199")).toBe("value");
    expect(await stateAt(store, "k0")).toBeUndefined();
    expect(await epochOf(store)).toBe(epoch);
  });

  it("does not store what does not fit at all, and goes on to store what does", async () => {
    const store = storeOf({ database: limitedTo(100) });
    await put(store, "small");
    expect(await put(store, "large", Buffer.alloc(900_000)).catch(() => "rejected")).not.toBe("stored");
    expect(await put(store, "next")).toBe("stored");
    expect(await stateAt(store, "next")).toBe("value");
  });
});

describe("A database that this process must not write", () => {
  it("is read, and says that a right is missing when it is written", async () => {
    await put(storeOf(), "k");
    const store = storeOf({
      database: (file) => {
        const database = open(file);
        database.exec("PRAGMA query_only = ON");
        return database;
      },
    });
    expect(await stateAt(store, "k")).toBe("value");
    const error = await store.remove(["k"]).catch((reason: unknown) => reason);
    expect(error).toMatchObject({ message: expect.stringContaining("readonly"), isMissingRight: true });
  });
});

describe("A damaged database", () => {
  /** Moves all of a database into its file, so that damage is not hidden by SQLite's log. */
  const flush = (): void => void raw().exec("PRAGMA wal_checkpoint(TRUNCATE)");

  it("is replaced by an empty one of a new epoch when a process cannot open it, and the others follow", async () => {
    const before = storeOf();
    await put(before, "k");
    const epoch = await epochOf(before);
    flush();
    writeFileSync(databaseFile(), Buffer.alloc(40_960, "no database "));
    const after = storeOf();
    expect(await stateAt(after, "k")).toBeUndefined();
    expect(await epochOf(after)).not.toBe(epoch);
    expect(await stateAt(before, "k")).toBeUndefined();
    expect(await epochOf(before)).toBe(await epochOf(after));
  });

  it("is replaced when a page of it is damaged, by the operation that finds out", async () => {
    const first = storeOf();
    for (let nth = 0; nth < 50; nth++) await put(first, `k${nth}`, Buffer.alloc(2_000));
    const epoch = await epochOf(first);
    flush();
    const file = databaseFile();
    const bytes = readFileSync(file);
    bytes.fill(0xaa, 4_096);
    writeFileSync(file, bytes);
    const second = storeOf();
    expect(await stateAt(second, "k7")).toBeUndefined();
    expect(await epochOf(second)).not.toBe(epoch);
    expect(await put(second, "k7")).toBe("stored");
    expect(await stateAt(first, "k7")).toBe("value");
  });

  it("is replaced when it was cut off", async () => {
    const first = storeOf();
    for (let nth = 0; nth < 50; nth++) await put(first, `k${nth}`, Buffer.alloc(2_000));
    flush();
    truncateSync(databaseFile(), 4_096);
    const second = storeOf();
    expect(await put(second, "k60")).toBe("stored");
    expect(await stateAt(first, "k60")).toBe("value");
  });

  it("of another application is left alone and not used", async () => {
    await put(storeOf(), "k");
    const file = databaseFile();
    for (const name of readdirSync(join(file, ".."))) rmSync(join(file, "..", name));
    const other = open(file);
    other.exec("PRAGMA application_id = 7; CREATE TABLE theirs (a)");
    other.close();
    expect(await put(storeOf(), "k")).toBe("stored");
    expect(databaseFile()).not.toBe(file);
  });
});

describe("Files that are deleted under a store", () => {
  const deleted: Record<string, () => void> = {
    "the pointer": () => rmSync(path),
    "the database": () => rmSync(databaseFile()),
    "the folder of the database": () => rmSync(join(databaseFile(), ".."), { recursive: true }),
    "the log of SQLite": () => rmSync(`${databaseFile()}-wal`),
    "the shared memory of SQLite": () => rmSync(`${databaseFile()}-shm`),
    everything: () => rmSync(folder, { recursive: true }),
  };

  it.each(Object.entries(deleted))(
    "are noticed by every process with its next operation, and begin a new epoch: %s",
    async (_, remove) => {
      const [first, second] = [storeOf(), storeOf()];
      await put(first, "k");
      const epoch = await epochOf(second);
      remove();
      expect(await stateAt(first, "k")).toBeUndefined();
      expect(await epochOf(first)).not.toBe(epoch);
      expect(await put(first, "k")).toBe("stored");
      // The other one had still open what was deleted, and reads what the first has written.
      expect(await stateAt(second, "k")).toBe("value");
      expect(await epochOf(second)).toBe(await epochOf(first));
      expect(await stateAt(storeOf(), "k")).toBe("value");
    },
  );

  it("leave nothing behind but the pointer and the folder in use", async () => {
    const [first, second] = [storeOf(), storeOf()];
    for (let nth = 0; nth < 3; nth++) {
      await put(first, "k");
      await stateAt(second, "k");
      rmSync(path);
    }
    await put(first, "k");
    await stateAt(second, "k");
    expect(readdirSync(folder)).toHaveLength(2);
  });

  it("cost nothing if it was a file of another program in the folder", async () => {
    const store = storeOf();
    await put(store, "k");
    const stray = join(databaseFile(), "..", ".DS_Store");
    writeFileSync(stray, "");
    expect(await stateAt(store, "k")).toBe("value");
    rmSync(stray);
    expect(await stateAt(store, "k")).toBe("value");
  });
});

describe("The pointer at the path", () => {
  it("of another start of the machine leads to an empty database, and what was left of the old one is deleted", async () => {
    const store = storeOf();
    await put(store, "k");
    const old = join(databaseFile(), "..");
    const [magic, , generation] = readFileSync(path, "latin1").split("\n");
    writeFileSync(path, `${magic}\nanother start\n${generation}\n`);
    expect(await stateAt(storeOf(), "k")).toBeUndefined();
    expect(existsSync(old)).toBe(false);
    expect(await stateAt(store, "k")).toBeUndefined();
  });

  it.each(["", "\0\0\0\0\0\0\0\0", "graphql-cached 1\n"])(
    "that a crash has left as %j is replaced",
    async (content) => {
      writeFileSync(path, content);
      expect(await put(storeOf(), "k")).toBe("stored");
      expect(await stateAt(storeOf(), "k")).toBe("value");
    },
  );

  it("is refused if it is a file of something else, which stays as it is", async () => {
    const store = storeOf();
    await put(store, "k");
    writeFileSync(path, "SQLite format 3\0 of an application");
    expect(() => storeOf()).toThrow("expected nothing at");
    await expect(store.read(["k"])).rejects.toThrow("expected nothing at");
    expect(readFileSync(path, "latin1")).toBe("SQLite format 3\0 of an application");
  });

  it("that other machines replace all the time fails the operations, with the reason, until they stop", async () => {
    const store = storeOf();
    const replace = (): void => {
      const [magic, , generation] = readFileSync(path, "latin1").split("\n");
      writeFileSync(path, `${magic}\nthe start of another machine\n${generation}\n`);
    };
    for (let nth = 0; nth < 5; nth++) {
      await store.read([]);
      replace();
    }
    await expect(store.read([])).rejects.toThrow("expected nothing but the processes of one machine");
    await clock.advance(11_000);
    expect(await put(store, "k")).toBe("stored");
  });

  it("can be read by its owner only, like the database", async () => {
    await put(storeOf(), "k");
    expect(statSync(path).mode & 0o077).toBe(0);
    expect(statSync(join(databaseFile(), "..")).mode & 0o077).toBe(0);
  });
});

describe("The size of a database", () => {
  it("is bounded: expired entries of any process are deleted first, and then the oldest ones", async () => {
    const store = storeOf({ maxBytes: 4 * 1024 * 1024 });
    for (let nth = 0; nth < 100; nth++) await put(store, `brief${nth}`, Buffer.alloc(1_000), 50);
    await clock.advance(60);
    for (let nth = 0; nth < 1_000; nth++) await put(store, `k${nth}`, Buffer.alloc(10_000));
    expect(countOf(raw(), "entries_1 WHERE key LIKE 'brief%'")).toBe(0);
    expect(statSync(databaseFile()).size).toBeLessThanOrEqual(4.5 * 1024 * 1024);
    expect(countOf(raw(), "entries_1")).toBeGreaterThan(200);
    expect(await stateAt(store, "k999")).toBe("value");
    expect(await stateAt(store, "k0")).toBeUndefined();
  });

  it("does not let one value drop the others: it is marked, and loaded without a lease", async () => {
    const store = storeOf({ maxBytes: 4 * 1024 * 1024 });
    await put(store, "k");
    expect(await put(store, "large", Buffer.alloc(2 * 1024 * 1024))).toBe("unavailable");
    expect((await acquire(store, "large")).kind).toBe("uncacheable");
    expect(await stateAt(store, "k")).toBe("value");
  });
});

describe("Another release of this package on the same file", () => {
  it("has its own entries, which are neither leased nor changed, and removed by an invalidation", async () => {
    const store = storeOf();
    await put(store, "k");
    raw().exec("UPDATE entries_1 SET bytes = x'00112233'");
    expect(await stateAt(store, "k")).toBeUndefined();
    expect((await acquire(store, "k")).kind).toBe("unknown-format");
    await store.remove(["k"]);
    expect((await acquire(store, "k")).kind).toBe("granted");
  });

  it("may have made the database without the tables of this one, and shares its clock", async () => {
    const store = storeOf();
    const epoch = await epochOf(store);
    raw().exec("DROP TABLE entries_1; DROP TABLE reports_1; CREATE TABLE entries_2 (a)");
    expect(await put(storeOf(), "k")).toBe("stored");
    expect(await epochOf(storeOf())).toBe(epoch);
    expect(countOf(raw(), "entries_2")).toBe(0);
  });
});

describe("A caller that waits for a load of another process", () => {
  it("is woken when the value is stored, and is asked for no longer", async () => {
    const [holder, waiter] = [storeOf(), storeOf()];
    const granted = await acquire(holder, "k");
    expect((await acquire(waiter, "k")).kind).toBe("busy");
    await clock.advance(100);
    expect(waiter.woken).toEqual([]);
    if (granted.kind !== "granted") throw new Error("expected a lease");
    const { gen, grantedAt } = granted;
    const value = { key: "k", gen, grantedAt, loadMs: 1, isNegative: false, freshMs: 1_000, ttlMs: 1_000, body: BODY };
    expect(await holder.storeValues([value])).toEqual(["stored"]);
    await clock.advance(20);
    expect(waiter.woken).toEqual(["k"]);
    await holder.remove(["k"]);
    await clock.advance(10_000);
    expect(waiter.woken).toEqual(["k"]);
  });

  it("is woken although the lease was renewed beyond the time that it knew", async () => {
    const [holder, waiter] = [storeOf(), storeOf()];
    const granted = await acquire(holder, "k");
    await acquire(waiter, "k");
    if (granted.kind !== "granted") throw new Error("expected a lease");
    const { token } = granted;
    for (let nth = 0; nth < 5; nth++) {
      await clock.advance(2_000);
      expect(await holder.renew([{ key: "k", token }], TIMES)).toEqual([true]);
    }
    await holder.release([{ key: "k", token, outcome: "failed", holdMs: 1_000, body: BODY }]);
    await clock.advance(20);
    expect(waiter.woken).toEqual(["k"]);
  });
});

describe("The clock of the machine", () => {
  it("may be set back: positions go on to grow, and leases last longer", async () => {
    let wallTime = 5_000_000;
    const jumping = {
      now: () => clock.now(),
      after: clock.after.bind(clock),
      afterTick: clock.afterTick.bind(clock),
      wallTime: () => wallTime,
    };
    const store = storeOf({ clock: jumping });
    const before = readHead(await store.appendClock([writeRecord({ kind: "hard", subjects: [1] })]));
    await acquire(store, "k");
    wallTime -= 3_600_000;
    const after = readHead(await store.appendClock([writeRecord({ kind: "hard", subjects: [2] })]));
    expect(after?.position).toBeGreaterThan(before?.position ?? 0);
    expect(after?.epoch).toBe(before?.epoch);
    expect((await acquire(store, "k")).kind).toBe("busy");
  });
});

describe("A store whose caches are closed", () => {
  it("has closed its database, and opens no other", async () => {
    let opened = 0;
    const database = (file: string): SqliteDatabase => {
      const one = open(file);
      opened++;
      const close = (): void => {
        opened--;
        one.close();
      };
      return { exec: (sql) => one.exec(sql), prepare: (sql) => one.prepare(sql), close };
    };
    const store = sqliteStore({ path, clock, database });
    const ends = [store.open(NAMES, { wake: () => undefined }), store.open(NAMES, { wake: () => undefined })];
    await put(store, "k");
    ends[0]?.();
    ends[0]?.();
    expect(await stateAt(store, "k")).toBe("value");
    ends[1]?.();
    expect(opened).toBe(0);
    await expect(store.read(["k"])).rejects.toThrow("caches are closed");
    await settle();
    store.open(NAMES, { wake: () => undefined })();
  });
});

describe("Without SQLite", () => {
  const hasSqlite = process.getBuiltinModule?.("node:sqlite" as string) !== undefined;
  const itWithout = it.skipIf(hasSqlite); // this Node.js has node:sqlite

  itWithout("each operation says what to install", async () => {
    const store = sqliteStore({ path, clock });
    cleanups.unshift(store.open(NAMES, { wake: () => undefined }));
    await expect(store.read(["k"])).rejects.toThrow("npm install better-sqlite3");
  });
});
