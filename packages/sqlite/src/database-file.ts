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
  type Stats,
  statSync,
  writeFileSync,
} from "node:fs";
import { uptime } from "node:os";
import { dirname, join } from "node:path";
import type { Clock } from "graphql-cached/store";
import { Connection, failureOf, type OpenDatabase, timeOf } from "./connection.js";

/**
 * The database of a path, and which one that is now. The file at the path is a pointer, the name of
 * a folder beside it with the database, which is random. A database is never replaced under its
 * name: SQLite finds its log and its shared memory by that name, so processes that had still open
 * what was deleted would use those of its successor, and closing would delete them.
 *
 * Every operation asks first whether pointer and folder are those that it knows. If not, this
 * process opens what is there now, or makes an empty database. That has no invalidation clock,
 * which begins a new epoch, under which no earlier value counts.
 *
 * A database also ends with the machine: what was written last may be missing after a crash,
 * invalidations among it.
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

  use(): void {
    this.#isInUse = true;
  }

  async connect(): Promise<Connection> {
    this.#open ??= await this.#findDatabase();
    if (!this.#isInUse)
      throw new Error("sqliteStore: expected a store that a cache uses, got one whose caches are closed");
    if (this.#attached !== undefined && !this.#isCurrent(this.#attached)) this.#leave(this.#attached);
    this.#attached ??= this.#attach(this.#open);
    return this.#attached.connection;
  }

  replace(connection: Connection): void {
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

  #isCurrent(attached: Attached): boolean {
    if (stampAt(this.#path) !== attached.pointerStamp) return false;
    const folderStamp = stampAt(attached.folder);
    if (folderStamp === attached.folderStamp) return true;
    // Another program may have left something there.
    attached.folderStamp = folderStamp;
    const files = filesIn(attached.folder);
    return attached.files.every((file, nth) => file === undefined || file === files[nth]);
  }

  /** Closes what has been replaced, and deletes it: no process that comes later will use it. */
  #leave({ connection, folder }: Attached): void {
    this.#attached = undefined;
    connection.close();
    removeFolder(folder);
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
    const folder = this.#folderOf(content.generation);
    // SQLite would make it.
    if (!existsSync(join(folder, DATABASE))) return undefined;
    try {
      return attachTo(open, folder, stamp);
    } catch (error) {
      if (failureOf(error) === "damaged") return undefined;
      throw error;
    }
  }

  /**
   * Makes an empty database in the place of the one of `previous`. Undefined if another process was
   * first.
   */
  #make(open: OpenDatabase, previous: Pointer | undefined): Attached | undefined {
    this.#checkGenerations();
    const generation = randomBytes(8).toString("hex");
    const folder = this.#folderOf(generation);
    // Values may be private.
    mkdirSync(folder, { mode: 0o700 });
    let attached: Attached | undefined;
    try {
      attached = attachTo(open, folder, "");
      const stamp = this.#publish(`${MAGIC}\n${this.#start()}\n${generation}\n`, `${folder}-new`, previous);
      if (stamp !== undefined) {
        this.#madeAt.push(this.#clock.now());
        if (previous?.content !== undefined) removeFolder(this.#folderOf(previous.content.generation));
        return { ...attached, pointerStamp: stamp };
      }
    } catch (error) {
      attached?.connection.close();
      removeFolder(folder);
      throw error;
    }
    attached.connection.close();
    removeFolder(folder);
    return undefined;
  }

  /**
   * Writes a pointer in one step, unless another process has done so since `previous` was read.
   * Returns its stamp.
   */
  #publish(text: string, temporary: string, previous: Pointer | undefined): string | undefined {
    try {
      writeFileSync(temporary, text, { flag: "wx", mode: 0o600 });
      if (previous === undefined) linkOrRename(temporary, this.#path);
      else if (readPointer(this.#path)?.text === previous.text) renameSync(temporary, this.#path);
    } finally {
      rmSync(temporary, { force: true });
    }
    const written = readPointer(this.#path);
    return written?.text === text ? written.stamp : undefined;
  }

  #folderOf(generation: string): string {
    return `${this.#path}-${generation}`;
  }

  #checkGenerations(): void {
    const now = this.#clock.now();
    while (this.#madeAt.length > 0 && (this.#madeAt[0] as number) < now - GENERATIONS_MS) this.#madeAt.shift();
    if (this.#madeAt.length >= MAX_GENERATIONS)
      throw new Error(
        `sqliteStore: expected nothing but the processes of one machine to use ${this.#path}, got ${MAX_GENERATIONS} new databases within ${GENERATIONS_MS / 1000} s; use a path on a local disk, one for each machine, and leave its files alone`,
      );
  }

  /** Returns what is the same for all processes until the machine starts anew. */
  #start(): string {
    try {
      return readFileSync("/proc/sys/kernel/random/boot_id", "latin1").trim();
    } catch {
      return String(Math.round(timeOf(this.#clock) - uptime() * 1000));
    }
  }
}

/** The first word of a pointer, and the version of its format. */
const MAGIC = "graphql-cached 1";
/** The database in its folder, and the files that SQLite keeps beside it while it is open. */
const DATABASE = "cache.db";
const FILES = [DATABASE, `${DATABASE}-wal`, `${DATABASE}-shm`];
/**
 * By how much two processes may take the start of the machine for different instants, where the
 * system has no id for it.
 */
const SAME_START_MS = 5_000;
/** So many databases in so short a time are not lost by accident. */
const MAX_GENERATIONS = 5;
const GENERATIONS_MS = 10_000;
/** How often a process tries to agree with others that replace the database at the same time. */
const ATTEMPTS = 10;

/**
 * What the file at the path says: which database is in use, and since which start of the machine.
 */
interface Pointer {
  readonly text: string;
  readonly stamp: string;
  /** Undefined: it is damaged. */
  readonly content: { readonly start: string; readonly generation: string } | undefined;
}

/** A connection, and what the file system said of its files when it was made. */
interface Attached {
  readonly connection: Connection;
  readonly folder: string;
  readonly pointerStamp: string;
  /** Changes when a file in the folder is made or deleted. */
  folderStamp: string | undefined;
  /** The numbers of its files. Undefined where there is none yet. */
  readonly files: readonly (number | undefined)[];
}

/**
 * Gives a file a second name that nothing has, or does nothing. File systems without hard links
 * move it, over what another process may just have made.
 */
function linkOrRename(file: string, name: string): void {
  try {
    linkSync(file, name);
  } catch (error) {
    if (codeOf(error) !== "EEXIST") renameSync(file, name);
  }
}

export class ForeignFile extends Error {}

/**
 * Returns what the pointer says. Undefined if there is none. Throws `ForeignFile` for anything
 * else, which it leaves as it is.
 */
export function readPointer(path: string): Pointer | undefined {
  let file: number;
  try {
    file = openSync(path, "r");
  } catch (error) {
    if (codeOf(error) === "ENOENT") return undefined;
    throw error;
  }
  try {
    const stamp = stampOf(fstatSync(file));
    const text = readFileSync(file, "latin1");
    const [magic, start = "", generation = ""] = text.split("\n");
    // What is left of a file that was written when the machine stopped is empty, or zeros.
    if (magic !== MAGIC && /[^\0]/.test(text))
      throw new ForeignFile(
        `sqliteStore: \`path\`: expected nothing at ${path}, or a file of this store, got another file; pass another path`,
      );
    const isWhole = magic === MAGIC && start !== "" && /^[0-9a-f]{16}$/.test(generation);
    return { text, stamp, content: isWhole ? { start, generation } : undefined };
  } finally {
    closeSync(file);
  }
}

function attachTo(open: OpenDatabase, folder: string, pointerStamp: string): Attached {
  const connection = new Connection(open(join(folder, DATABASE)));
  return { connection, folder, pointerStamp, folderStamp: stampAt(folder), files: filesIn(folder) };
}

/**
 * Returns what is another when something was written at a path. A deleted file's number may be used
 * again, but not within the same instant.
 */
function stampAt(path: string): string | undefined {
  const found = statSync(path, { throwIfNoEntry: false });
  return found && stampOf(found);
}

const stampOf = ({ ino, mtimeMs }: Stats): string => `${ino} ${mtimeMs}`;

const filesIn = (folder: string): (number | undefined)[] =>
  FILES.map((name) => statSync(join(folder, name), { throwIfNoEntry: false })?.ino);

const codeOf = (error: unknown): unknown => (error as { readonly code?: unknown }).code;

function isSameStart(one: string, other: string): boolean {
  return one === other || Math.abs(Number(one) - Number(other)) <= SAME_START_MS;
}

function removeFolder(folder: string): void {
  try {
    rmSync(folder, { recursive: true, force: true });
  } catch {
    // On Windows, the last process that has it open deletes it.
  }
}
