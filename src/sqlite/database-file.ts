import { randomBytes } from "node:crypto";
import {
  closeSync,
  existsSync,
  fstatSync,
  linkSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { uptime } from "node:os";
import { dirname } from "node:path";
import { type Clock, wallTimeOf } from "../clock.js";
import { Connection } from "./connection.js";
import type { OpenDatabase, SqliteDatabase } from "./sqlite-database.js";
import { failureOf } from "./sqlite-failure.js";

/** The first word of a pointer, and the version of its format. */
const MAGIC = "graphql-cached 1";
/** SQLite's own files beside a database. */
const SUFFIXES = ["", "-wal", "-shm", "-journal"];
/** By how much two processes may take the start of the machine for different instants, where the system has no id for it. */
const SAME_START_MS = 5_000;
/** So many databases in so short a time are not lost by accident. */
const MAX_GENERATIONS = 5;
const GENERATIONS_MS = 10_000;
/** How often a process tries to agree with others that replace the database at the same time. */
const ATTEMPTS = 10;

/** What the file at the path says: which database is in use, and since which start of the machine. */
interface Pointer {
  readonly text: string;
  readonly stamp: string;
  /** Undefined: it is damaged. */
  readonly content: { readonly start: string; readonly generation: string } | undefined;
}

/** A connection, and what the file system said of its files when it was made. */
interface Attached {
  readonly connection: Connection;
  readonly file: string;
  readonly fileStamp: string;
  readonly pointerStamp: string;
}

/**
 * The database of a path, and which one that is now. The file at the path is a pointer, the name of the database beside it, which is
 * random. A database is never replaced under its name: SQLite finds its log and its shared memory by that name, so processes that had
 * still open what was deleted would use those of its successor, and closing would delete them.
 *
 * Every operation asks first whether pointer and database are the files that it knows. If not, this process opens what is there now, or
 * makes an empty database. That has no invalidation clock, which begins a new epoch, under which no earlier value counts.
 *
 * A database also ends with the machine: what was written last may be missing after a crash, invalidations among it.
 */
export class DatabaseFile {
  readonly #path: string;
  readonly #clock: Clock;
  readonly #findDatabase: () => Promise<OpenDatabase>;
  #open: OpenDatabase | undefined;
  #attached: Attached | undefined;
  #isInUse = false;
  readonly #madeAt: number[] = [];

  constructor(path: string, clock: Clock, find: () => Promise<OpenDatabase>) {
    this.#path = path;
    this.#clock = clock;
    this.#findDatabase = find;
  }

  /** Allows connections until it is closed. */
  use(): void {
    this.#isInUse = true;
  }

  /** Returns a connection to the database that is in use now. */
  async connect(): Promise<Connection> {
    this.#open ??= await this.#findDatabase();
    if (!this.#isInUse)
      throw new Error("sqliteStore: expected a store that a cache uses, got one whose caches are closed");
    if (this.#attached !== undefined && !this.#isCurrent(this.#attached)) this.#leave(this.#attached);
    this.#attached ??= this.#attach(this.#open);
    return this.#attached.connection;
  }

  /** Replaces the database of a connection, which is damaged. */
  discard(connection: Connection): void {
    const attached = this.#attached;
    if (attached === undefined || attached.connection !== connection) return;
    const pointer = readPointer(this.#path);
    // Otherwise another process has replaced it.
    const open = this.#open;
    if (open !== undefined && pointer?.stamp === attached.pointerStamp) {
      this.#attached = undefined;
      attached.connection.close();
      this.#attached = this.#make(open, pointer);
    }
  }

  close(): void {
    this.#isInUse = false;
    this.#attached?.connection.close();
    this.#attached = undefined;
  }

  #isCurrent({ file, fileStamp, pointerStamp }: Attached): boolean {
    return stampAt(this.#path) === pointerStamp && identityAt(file) === fileStamp;
  }

  /** Closes what has been replaced, and deletes it: no process that comes later will use it. */
  #leave({ connection, file }: Attached): void {
    this.#attached = undefined;
    connection.close();
    removeDatabase(file);
  }

  #attach(open: OpenDatabase): Attached {
    mkdirSync(dirname(this.#path), { recursive: true });
    for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
      const pointer = readPointer(this.#path);
      const attached = (pointer && this.#use(open, pointer)) ?? this.#make(open, pointer);
      if (attached !== undefined) return attached;
    }
    throw new Error(
      `sqliteStore: expected the database of ${this.#path} to stay, got another one at every attempt to open it`,
    );
  }

  /** Opens the database that a pointer names. Undefined if it cannot be used any more. */
  #use(open: OpenDatabase, { content, stamp }: Pointer): Attached | undefined {
    if (content === undefined || !isSameStart(content.start, this.#start())) return undefined;
    const file = this.#fileOf(content.generation);
    // SQLite would make it.
    if (!existsSync(file)) return undefined;
    try {
      return this.#attachedTo(open(file), file, stamp);
    } catch (error) {
      if (failureOf(error) === "damaged") return undefined;
      throw error;
    }
  }

  /** Makes an empty database in the place of the one of `previous`. Undefined if another process was first. */
  #make(open: OpenDatabase, previous: Pointer | undefined): Attached | undefined {
    this.#countGeneration();
    const generation = randomBytes(8).toString("hex");
    const file = this.#fileOf(generation);
    // Values may be private. SQLite gives its other files the same mode.
    writeFileSync(file, "", { flag: "wx", mode: 0o600 });
    let attached: Attached | undefined;
    try {
      attached = this.#attachedTo(open(file), file, "");
      const stamp = this.#publish(`${MAGIC}\n${this.#start()}\n${generation}\n`, `${file}-new`, previous);
      if (stamp !== undefined) {
        if (previous?.content !== undefined) removeDatabase(this.#fileOf(previous.content.generation));
        return { ...attached, pointerStamp: stamp };
      }
    } catch (error) {
      attached?.connection.close();
      removeDatabase(file);
      throw error;
    }
    attached.connection.close();
    removeDatabase(file);
    return undefined;
  }

  /** Writes a pointer in one step, unless another process has done so since `previous` was read. Returns its stamp. */
  #publish(text: string, temporary: string, previous: Pointer | undefined): string | undefined {
    writeFileSync(temporary, text, { flag: "wx", mode: 0o600 });
    try {
      if (previous === undefined) linkOrRename(temporary, this.#path);
      else if (readPointer(this.#path)?.text === previous.text) renameSync(temporary, this.#path);
    } finally {
      rmSync(temporary, { force: true });
    }
    const written = readPointer(this.#path);
    return written?.text === text ? written.stamp : undefined;
  }

  #attachedTo(database: SqliteDatabase, file: string, pointerStamp: string): Attached {
    return { connection: new Connection(database), file, fileStamp: identityAt(file) ?? "", pointerStamp };
  }

  #fileOf(generation: string): string {
    return `${this.#path}-${generation}`;
  }

  #countGeneration(): void {
    const now = this.#clock.now();
    while (this.#madeAt.length > 0 && (this.#madeAt[0] as number) < now - GENERATIONS_MS) this.#madeAt.shift();
    if (this.#madeAt.length >= MAX_GENERATIONS)
      throw new Error(
        `sqliteStore: expected ${this.#path} to be used by the processes of one machine, got ${MAX_GENERATIONS} new databases within ${GENERATIONS_MS / 1000} s; use a path on a local disk, one for each machine, and leave its files alone`,
      );
    this.#madeAt.push(now);
  }

  /** Returns what is the same for all processes until the machine starts anew. */
  #start(): string {
    try {
      return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    } catch {
      return String(Math.round(wallTimeOf(this.#clock) - uptime() * 1000));
    }
  }
}

/** Gives a file a second name that nothing has, or does nothing. File systems without hard links move it, over what another process may just have made. */
function linkOrRename(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") renameSync(file, name);
  }
}

/** Something at a path that this store has not made. */
export class ForeignFile extends Error {}

/** Returns what the pointer says. Undefined if there is none. Throws `ForeignFile` for anything else, which it leaves as it is. */
export function readPointer(path: string): Pointer | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const { ino, mtimeNs } = fstatSync(file, { bigint: true });
    const text = readFileSync(file, "latin1");
    const [magic, start = "", generation = ""] = text.split("\n");
    // What is left of a file that was written when the machine stopped is empty, or zeros.
    if (magic !== MAGIC && /[^\0]/.test(text))
      throw new ForeignFile(
        `sqliteStore: \`path\`: expected nothing at ${path}, or a file of this store, got another file; pass another path`,
      );
    const isWhole = magic === MAGIC && start !== "" && /^[0-9a-f]{16}$/.test(generation);
    return { text, stamp: `${ino} ${mtimeNs}`, content: isWhole ? { start, generation } : undefined };
  } finally {
    closeSync(file);
  }
}

/** Returns what is another for every pointer: the number of a deleted file may be used again, but not within the same instant. */
function stampAt(path: string): string | undefined {
  const found = statSync(path, { bigint: true, throwIfNoEntry: false });
  return found && `${found.ino} ${found.mtimeNs}`;
}

/** Returns what is another for every database. */
function identityAt(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false });
  return found && String(found.ino);
}

const codeOf = (error: unknown): unknown => (error as { readonly code?: unknown }).code;

function isSameStart(one: string, other: string): boolean {
  return one === other || Math.abs(Number(one) - Number(other)) <= SAME_START_MS;
}

function removeDatabase(file: string): void {
  for (const suffix of SUFFIXES)
    try {
      rmSync(file + suffix, { force: true });
    } catch {
      // On Windows, a process that has it open deletes it.
    }
}
