import { type Cancel, type Clock, isTime } from "../../base/clock.js";
import { type EntryIdentity, nameOfSubject } from "../../keys/key.js";
import type { HistoryLimits } from "../../store/report-store.js";
import type { Store } from "../../store/store.js";
import type { InvalidationVia } from "../../telemetry/events.js";
import type { InvalidationNames } from "../shared/unconfirmed-invalidations.js";

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
  /** What the store does not have yet, as far as is known; the oldest first. */
  readonly #records: OwnRecord[] = [];
  /** How many of the first are being appended. */
  #sending = 0;
  /** The length of the contents of all others. */
  #bytes = 0;
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

  add(names: InvalidationNames, { kind, cause, beganAt, isConfirmed }: RecordedCall): void {
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
    const text = JSON.stringify(content);
    this.#records.push({ nth: ++this.#count, beganAt, endedAt: this.#clock.now(), content: text });
    this.#bytes += text.length;
    this.#dropOldest();
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
    const found = new Map<string, InvalidationRecord & { readonly nth: number }>();
    let since = history?.since ?? toStore(this.#startedAt);
    if (Number.isFinite(this.#lostAt)) since = Math.max(since, toStore(this.#lostAt));
    for (const { at, content } of history?.parts ?? []) {
      const part = readPart(content);
      if (part === undefined || part.isIncomplete) since = Math.max(since, at);
      if (part === undefined) continue;
      const { process, lostAgoMs } = part;
      if (lostAgoMs !== undefined) since = Math.max(since, at - lostAgoMs);
      for (const { agoMs, tookMs, ...record } of part.records) {
        const beganAt = at - agoMs;
        const id = idOf(process, record.nth);
        found.set(id, { ...record, id, beganAt, endedAt: beganAt + tookMs, process });
      }
    }
    for (const { nth, beganAt, endedAt, content } of this.#records) {
      const id = idOf(this.#process, nth);
      const times = { beganAt: toStore(beganAt), endedAt: toStore(endedAt) };
      found.set(id, { ...(JSON.parse(content) as RecordContent), nth, id, ...times, process: this.#process });
    }
    const records = inOrder([...found.values()]);
    const processes = new Map([this.#process, ...records.map(({ process }) => process)].map((one) => [one.id, one]));
    return { now, since, isOwnOnly: history === undefined, records, processes };
  }

  flush(): Promise<void> {
    this.#timer?.();
    this.#timer = undefined;
    this.#appending = this.#appending.then(() => this.#append());
    return this.#appending;
  }

  close(): Promise<void> {
    this.#isClosed = true;
    return this.flush();
  }

  #dropOldest(): void {
    const maxBytes = this.#store.appendHistory === undefined ? MAX_OWN_BYTES : MAX_PENDING_BYTES;
    while (this.#bytes > maxBytes) {
      const [{ content, beganAt }] = this.#records.splice(this.#sending, 1) as [OwnRecord];
      this.#bytes -= content.length;
      this.#lostAt = Math.max(this.#lostAt, beganAt);
    }
  }

  #appendLater(delayMs: number): void {
    if (this.#store.appendHistory === undefined || this.#isClosed || this.#records.length === 0) return;
    this.#timer ??= this.#clock.after(delayMs, () => void this.flush());
  }

  async #append(): Promise<void> {
    const { appendHistory } = this.#store;
    if (appendHistory === undefined || this.#records.length === 0) return;
    const part = this.#partOf(this.#records);
    this.#sending = this.#records.length;
    this.#bytes = 0;
    const lostAt = this.#lostAt;
    let pauseMs = COLLECT_MS;
    try {
      await appendHistory(part, LIMITS);
      this.#records.splice(0, this.#sending);
      if (this.#lostAt === lostAt) this.#lostAt = Number.NEGATIVE_INFINITY;
    } catch {
      pauseMs = RETRY_MS;
    }
    this.#sending = 0;
    this.#bytes = this.#records.reduce((sum, { content }) => sum + content.length, 0);
    this.#dropOldest();
    this.#timer?.();
    this.#timer = undefined;
    this.#appendLater(pauseMs);
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
const RETRY_MS = 2_000;
const MAX_NAMES = 1_000;
/** The characters of a digest that a record has: 72 bits. */
const RECORDED_DIGEST_LENGTH = 12;
/** The most bytes of records that wait to be appended. */
const MAX_PENDING_BYTES = 256 * 1024;
/** The most bytes of records that a process keeps if the store has no history. */
const MAX_OWN_BYTES = 512 * 1024;
const LIMITS: HistoryLimits = { maxBytes: 1024 * 1024, keepMs: 24 * 3_600_000 };

/** Who asked for an invalidation. Contains no user data. */
export interface InvalidationCause {
  readonly via: InvalidationVia;
  /** The mutation field that asked for it with `@invalidates` or entity tags, such as `Mutation.updateMovie`. */
  readonly mutation?: string;
}

export const RETRY: InvalidationCause = { via: "retry" };

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
export type RecordedKind = "hard" | "soft" | "write";

/** What is remembered of an invalidation. Digests stand for keys and tags; there are no arguments, ids or texts of tags. */
interface RecordContent extends InvalidationCause {
  readonly kind: RecordedKind;
  /** Whether the store has confirmed it. If not, a record of a `retry` follows. */
  readonly isConfirmed: boolean;
  readonly isClear: boolean;
  readonly coordinates: readonly string[];
  /** The coordinate and the beginning of the digest of each key, separated by a colon. */
  readonly keys: readonly string[];
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
  readonly now: number;
  readonly since: number;
  /** Whether only those of this process are remembered, since the store keeps no history. */
  readonly isOwnOnly: boolean;
  readonly records: readonly InvalidationRecord[];
  /** This process, and those that have made one of the records, by id. */
  readonly processes: ReadonlyMap<string, ProcessIdentity>;
}

/** A record of this process. Instants are on its own clock. */
interface OwnRecord {
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

export interface RecordedCall {
  readonly kind: RecordedKind;
  readonly cause: InvalidationCause;
  /** When it began, on the clock of this process. */
  readonly beganAt: number;
  readonly isConfirmed: boolean;
}

/**
 * Returns records in the order in which they ended. The times of a part are too high by the time that the part took to
 * the store, so those of one process are in the order of their numbers: none ended later than one with a higher number.
 */
function inOrder(found: readonly (InvalidationRecord & { readonly nth: number })[]): InvalidationRecord[] {
  const ends = new Map<string, number>();
  return found
    .toSorted((one, other) => other.nth - one.nth)
    .map(({ nth, ...record }) => {
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

const KINDS: Readonly<Record<RecordedKind, true>> = { hard: true, soft: true, write: true };
const isInt = (value: unknown): boolean => typeof value === "number" && (value | 0) === value;
const isText = (value: unknown): boolean => typeof value === "string";
const isFlag = (value: unknown): boolean => typeof value === "boolean";
const isTexts = (value: unknown): boolean => Array.isArray(value) && value.every(isText);

function isIdentity(value: unknown): value is ProcessIdentity {
  const { id, host, pid } = value as Partial<Record<keyof ProcessIdentity, unknown>>;
  return isText(id) && isText(host) && isInt(pid);
}

/** What the properties of a record are that this release knows. */
const CHECKS: Readonly<Record<keyof Part["records"][number], (value: unknown) => boolean>> = {
  kind: (value) => isText(value) && Object.hasOwn(KINDS, value as string),
  via: isText,
  mutation: (value) => value === undefined || isText(value),
  isConfirmed: isFlag,
  isClear: isFlag,
  coordinates: isTexts,
  keys: isTexts,
  tags: isTexts,
  nameCount: isInt,
  nth: (value) => typeof value === "number",
  agoMs: isTime,
  tookMs: isTime,
};

const isRecord = (value: unknown): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.entries(CHECKS).every(([name, isValid]) => isValid((value as Readonly<Record<string, unknown>>)[name]));

export const recordedKey = ({ coordinate, digest }: Pick<EntryIdentity, "coordinate" | "digest">): string =>
  `${coordinate}:${digest.slice(0, RECORDED_DIGEST_LENGTH)}`;
