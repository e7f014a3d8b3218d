import { type Cancel, type Clock, isTime } from "../../base/clock.js";
import { type EntryIdentity, nameOfSubject } from "../../keys/key.js";
import type { HistoryLimits } from "../../store/report-store.js";
import type { Store } from "../../store/store.js";
import type { InvalidationVia } from "../../telemetry/events.js";
import type { Names } from "../record/unconfirmed-invalidations.js";

/**
 * Who invalidated what, and when: for the inspection alone. The records of all processes are in the store, in a history
 * of bounded size; what is served does not depend on it. Records are appended a quarter of a second after the first of
 * them, in one call, so that an invalidation never waits for its record. A process that is killed takes those with it
 * that it has not appended. If the store keeps no history, each process remembers its own.
 */
export class InvalidationHistory {
  readonly #store: Pick<Store, "appendHistory" | "readHistory">;
  readonly #clock: Clock;
  readonly #process: ProcessIdentity;
  readonly #startedAt: number;
  /** Oldest first. */
  #pending: OwnRecord[] = [];
  #pendingBytes = 0;
  /** The records that are being appended. */
  #sending: readonly OwnRecord[] = [];
  /** When the last record began that was dropped. */
  #lostAt = Number.NEGATIVE_INFINITY;
  #count = 0;
  /** One append at a time: the last one that was begun. */
  #appending: Promise<void> = Promise.resolve();
  #timer: Cancel | undefined;
  #isClosed = false;

  constructor(store: Pick<Store, "appendHistory" | "readHistory">, clock: Clock, process: ProcessIdentity) {
    this.#store = store;
    this.#clock = clock;
    this.#process = process;
    this.#startedAt = clock.now();
  }

  /** Remembers an invalidation that has just ended. */
  add(names: Names, { kind, cause, beganAt, isConfirmed }: RecordedCall): void {
    const { keys, tags, coordinates = [], isClear = false } = names;
    const nameCount = keys.length + tags.length;
    if (nameCount + coordinates.length === 0 && !isClear) return;
    const content: RecordContent = {
      kind,
      ...cause,
      isConfirmed,
      isClear,
      coordinates: coordinates.slice(0, MAX_NAMES),
      keys: keys.slice(0, MAX_NAMES).map(recordedKey),
      tags: tags.slice(0, MAX_NAMES).map(nameOfSubject),
      nameCount,
    };
    this.#remember([{ nth: ++this.#count, beganAt, endedAt: this.#clock.now(), content: JSON.stringify(content) }]);
    this.#appendLater(COLLECT_MS);
  }

  /**
   * Returns what is remembered. `storeNow`: the time on the store's clock, which is needed if the store keeps no
   * history. Rejects if the store does not reply.
   */
  async read(storeNow: () => Promise<number>): Promise<RememberedInvalidations> {
    const history = await this.#store.readHistory?.();
    const now = history?.now ?? (await storeNow());
    const toStore = (at: number): number => now - (this.#clock.now() - at);
    // By id: clients resend commands, and what is being sent may have arrived.
    const found = new Map<string, Found>();
    let since = history?.since ?? toStore(this.#startedAt);
    if (Number.isFinite(this.#lostAt)) since = Math.max(since, toStore(this.#lostAt));
    for (const { at, content } of history?.parts ?? []) {
      const part = readPart(content);
      if (part === undefined || part.isIncomplete) since = Math.max(since, at);
      if (part === undefined) continue;
      const { process, lostAgoMs } = part;
      if (lostAgoMs !== undefined) since = Math.max(since, at - lostAgoMs);
      for (const { nth, agoMs, tookMs, ...record } of part.records) {
        const beganAt = at - agoMs;
        const id = idOf(process, nth);
        found.set(id, { nth, record: { ...record, id, beganAt, endedAt: beganAt + tookMs, process } });
      }
    }
    for (const { nth, beganAt, endedAt, content } of [...this.#sending, ...this.#pending]) {
      const id = idOf(this.#process, nth);
      const record: InvalidationRecord = {
        ...(JSON.parse(content) as RecordContent),
        id,
        beganAt: toStore(beganAt),
        endedAt: toStore(endedAt),
        process: this.#process,
      };
      found.set(id, { nth, record });
    }
    const records = inOrder([...found.values()]);
    const processes = new Map([this.#process, ...records.map(({ process }) => process)].map((one) => [one.id, one]));
    return { now, since, isOwnOnly: history === undefined, records, processes };
  }

  /** Appends what has been collected. Never rejects. */
  flush(): Promise<void> {
    this.#timer?.();
    this.#timer = undefined;
    this.#appending = this.#appending.then(() => this.#append());
    return this.#appending;
  }

  /** The same, and appends nothing any more. */
  close(): Promise<void> {
    this.#isClosed = true;
    return this.flush();
  }

  #remember(records: readonly OwnRecord[]): void {
    const maxBytes = this.#store.appendHistory === undefined ? MAX_OWN_BYTES : MAX_PENDING_BYTES;
    this.#pending.push(...records);
    for (const { content } of records) this.#pendingBytes += content.length;
    while (this.#pendingBytes > maxBytes) {
      const { content, beganAt } = this.#pending.shift() as OwnRecord;
      this.#pendingBytes -= content.length;
      this.#lostAt = Math.max(this.#lostAt, beganAt);
    }
  }

  #appendLater(delayMs: number): void {
    if (this.#store.appendHistory === undefined || this.#isClosed || this.#pending.length === 0) return;
    this.#timer ??= this.#clock.after(delayMs, () => void this.flush());
  }

  async #append(): Promise<void> {
    const { appendHistory } = this.#store;
    if (appendHistory === undefined || this.#pending.length === 0) return;
    const sending = this.#pending;
    this.#sending = sending;
    this.#pending = [];
    this.#pendingBytes = 0;
    const lostAt = this.#lostAt;
    let isAppended = true;
    try {
      await appendHistory(this.#partOf(sending), LIMITS);
    } catch {
      isAppended = false;
    }
    this.#sending = [];
    if (!isAppended) {
      const since = this.#pending;
      this.#pending = [];
      this.#pendingBytes = 0;
      this.#remember([...sending, ...since]);
    } else if (this.#lostAt === lostAt) this.#lostAt = Number.NEGATIVE_INFINITY;
    this.#timer?.();
    this.#timer = undefined;
    this.#appendLater(isAppended ? COLLECT_MS : RETRY_MS);
  }

  #partOf(records: readonly OwnRecord[]): Uint8Array {
    const now = this.#clock.now();
    const part: Part = {
      process: this.#process,
      ...(Number.isFinite(this.#lostAt) ? { lostAgoMs: Math.round(now - this.#lostAt) } : {}),
      records: records.map(({ nth, beganAt, endedAt, content }) => ({
        nth,
        agoMs: Math.round(now - beganAt),
        tookMs: Math.round(endedAt - beganAt),
        ...(JSON.parse(content) as RecordContent),
      })),
    };
    return Buffer.from(JSON.stringify(part));
  }
}

/** How long records are collected before they are appended to the store's history, in one call. */
const COLLECT_MS = 250;
/** The same after an attempt that has failed. */
const RETRY_MS = 2_000;
/** The most names of keys, and of tags, that a record has. */
const MAX_NAMES = 1_000;
/** The characters of a digest that a record has: 72 bits. */
const RECORDED_DIGEST_LENGTH = 12;
/** The most bytes of records that wait to be appended. */
const MAX_PENDING_BYTES = 256 * 1024;
/** The most bytes of records that a process keeps if the store has no history. */
const MAX_OWN_BYTES = 512 * 1024;
/** What the store keeps. */
const LIMITS: HistoryLimits = { maxBytes: 1024 * 1024, keepMs: 24 * 3_600_000 };

/** Who asked for an invalidation. Contains no user data. */
export interface InvalidationCause {
  readonly via: InvalidationVia;
  /** The mutation field that asked for it with `@invalidates` or entity tags, such as `Mutation.updateMovie`. */
  readonly mutation?: string;
}

/** The cause of an invalidation that is repeated. */
export const RETRY: InvalidationCause = { via: "retry" };

/** A process, as the inspection names it. */
export interface ProcessIdentity {
  /** 16 hexadecimal digits. */
  readonly id: string;
  readonly host: string;
  readonly pid: number;
}

/**
 * What an invalidation did with values: see `InvalidationKind`. A write (`cache.mutate`) has two records: it
 * invalidates when it begins and when it ends.
 */
export type RecordedKind = "hard" | "soft" | "replace" | "write";

/** What is remembered of an invalidation. Digests stand for keys and tags; there are no arguments, ids or texts of tags. */
interface RecordContent extends InvalidationCause {
  readonly kind: RecordedKind;
  /** Whether the store has confirmed it. If not, a record of a `retry` follows. */
  readonly isConfirmed: boolean;
  /** Whether everything under the prefix was invalidated. */
  readonly isClear: boolean;
  /** The fields and loaders that were invalidated as a whole. */
  readonly coordinates: readonly string[];
  /** The coordinate and the beginning of the digest of each key, separated by a colon. */
  readonly keys: readonly string[];
  /** The beginnings of the digests of tags. */
  readonly tags: readonly string[];
  /** How many keys and tags there were. `keys` and `tags` have 1,000 each at most. */
  readonly nameCount: number;
}

/** An invalidation that took place. Instants are on the store's clock. */
export interface InvalidationRecord extends RecordContent {
  /** Names the record in all answers of all processes: the process that made it, and its number there. */
  readonly id: string;
  readonly beganAt: number;
  readonly endedAt: number;
  readonly process: ProcessIdentity;
}

/** The invalidations that are remembered, in the order in which they ended. */
export interface RememberedInvalidations {
  /** The time on the store's clock. */
  readonly now: number;
  /** Earlier invalidations may be missing. */
  readonly since: number;
  /** Whether only those of this process are remembered, since the store keeps no history. */
  readonly isOwnOnly: boolean;
  readonly records: readonly InvalidationRecord[];
  /** This process, and those that have made one of the records, by id. */
  readonly processes: ReadonlyMap<string, ProcessIdentity>;
}

/** A record of this process. Instants are on its own clock. */
interface OwnRecord {
  /** Numbers the records of a process. */
  readonly nth: number;
  readonly beganAt: number;
  readonly endedAt: number;
  /** A `RecordContent` as JSON, which takes less memory than the object. */
  readonly content: string;
}

/** What a part of the store's history contains, as JSON. Times are relative: the store adds its own to each part. */
interface Part {
  readonly process: ProcessIdentity;
  /** How long ago the last record was dropped that could not be appended. */
  readonly lostAgoMs?: number;
  readonly records: readonly (RecordContent & {
    readonly nth: number;
    readonly agoMs: number;
    readonly tookMs: number;
  })[];
}

/** What is kept of an invalidation besides its names. */
export interface RecordedCall {
  readonly kind: RecordedKind;
  readonly cause: InvalidationCause;
  /** When it began, on the clock of this process. */
  readonly beganAt: number;
  readonly isConfirmed: boolean;
}

/** A record that was found in the history, or that waits to be appended. */
interface Found {
  /** Its number in its process. */
  readonly nth: number;
  readonly record: InvalidationRecord;
}

/**
 * Returns records in the order in which they ended. The times of a part are too high by the time that the part took to
 * the store, so those of one process are in the order of their numbers: none ended later than one with a higher number.
 */
function inOrder(found: readonly Found[]): InvalidationRecord[] {
  const ends = new Map<string, number>();
  return found
    .toSorted((one, other) => other.nth - one.nth)
    .map(({ record }) => {
      const endedAt = Math.min(record.endedAt, ends.get(record.process.id) ?? Number.POSITIVE_INFINITY);
      ends.set(record.process.id, endedAt);
      return { record, endedAt };
    })
    .reverse()
    .sort((one, other) => one.endedAt - other.endedAt)
    .map(({ record }) => record);
}

const idOf = ({ id }: ProcessIdentity, nth: number): string => `${id}-${nth}`;

/** Returns what can be read of a part that a process of any release has written. Undefined: nothing. */
function readPart(content: Uint8Array): (Part & { readonly isIncomplete: boolean }) | undefined {
  try {
    const { process, lostAgoMs, records } = JSON.parse(Buffer.from(content).toString("utf8")) as Part;
    if (!isIdentity(process) || !Array.isArray(records)) return undefined;
    if (lostAgoMs !== undefined && !isTime(lostAgoMs)) return undefined;
    const readable = records.filter(isRecord);
    return {
      process,
      ...(lostAgoMs === undefined ? {} : { lostAgoMs }),
      records: readable,
      isIncomplete: readable.length < records.length,
    };
  } catch {
    return undefined;
  }
}

const KINDS: Readonly<Record<RecordedKind, true>> = { hard: true, soft: true, replace: true, write: true };
const isInt = (value: unknown): boolean => typeof value === "number" && (value | 0) === value;

const isTexts = (value: unknown): boolean =>
  Array.isArray(value) && value.every((one: unknown) => typeof one === "string");

function isIdentity(value: unknown): value is ProcessIdentity {
  const { id, host, pid } = value as Partial<Record<keyof ProcessIdentity, unknown>>;
  return typeof id === "string" && typeof host === "string" && isInt(pid);
}

/** Returns whether a record has a kind and a shape that this release knows. */
function isRecord(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  const record = value as Partial<Record<keyof Part["records"][number], unknown>>;
  return (
    typeof record.kind === "string" &&
    Object.hasOwn(KINDS, record.kind) &&
    typeof record.via === "string" &&
    (record.mutation === undefined || typeof record.mutation === "string") &&
    typeof record.isConfirmed === "boolean" &&
    typeof record.isClear === "boolean" &&
    isTexts(record.coordinates) &&
    isTexts(record.keys) &&
    isTexts(record.tags) &&
    isInt(record.nameCount) &&
    typeof record.nth === "number" &&
    isTime(record.agoMs) &&
    isTime(record.tookMs)
  );
}

/** Returns how a record names a key. */
export const recordedKey = ({ coordinate, digest }: Pick<EntryIdentity, "coordinate" | "digest">): string =>
  `${coordinate}:${digest.slice(0, RECORDED_DIGEST_LENGTH)}`;
