import { randomBytes } from "node:crypto";
import type { Subject } from "../keys/key.js";
import { bytesOf } from "./entry-layout.js";

/*
 * The invalidation clock of a prefix, as a store keeps it: a head, which every read includes, and a
 * log of the recent invalidations. The head says where the log ends. All numbers are little endian;
 * instants, positions and subjects are f64.
 *
 * Head, 56 bytes:
 *
 * | offset | bytes | field |
 * |---|---|---|
 * | 0 | 8 | magic and layout version |
 * | 8 | 8 | epoch, which no other has: that of the log |
 * | 16 | 8 | position of the last record |
 * | 24 | 8 | nonce of the last record |
 * | 32 | 8 | where the log begins, in bytes of all records since the epoch began |
 * | 40 | 8 | where it ends |
 * | 48 | 8 | floor: the position of the last record that was dropped |
 *
 * Log: magic (8), epoch (8), floor (8), beginning (8), and where it will be cut next: a place (8)
 * and the position of the record before it (8); zeros if that is not decided. Then the records,
 * each with its position (8), nonce (8), kind (u16), number of key forms (u16), number of slots
 * (u32), and slots (8 each). Slots are subjects, except for the first of the kinds `begin` (writer
 * and guard time) and `end` (writer), and except for the last: two for each key form, those of its
 * coordinate and of itself.
 *
 * Positions are microseconds of the store's clock, and only grow. A log never has no records: the
 * first one begins its epoch. A clock that none of this can have written, by its position, its
 * length or its records, is a lost one: the next append begins a new epoch.
 */

/** Returns a whole log. Undefined for other bytes, and incomplete or unordered records. */
export function readLog(bytes: Buffer | undefined): ClockLog | undefined {
  if (bytes === undefined || bytes.length <= LOG_HEAD_BYTES || !MAGIC.equals(bytes.subarray(0, 8))) return undefined;
  const records = readRecords(bytes, LOG_HEAD_BYTES);
  if (records === undefined || records.length === 0) return undefined;
  const epoch = bytes.toString("latin1", 8, 16);
  return { epoch, floor: bytes.readDoubleLE(16), beginsAt: bytes.readDoubleLE(24), records };
}

export const HEAD_BYTES = 56;
export const LOG_HEAD_BYTES = 48;
const RECORD_HEAD_BYTES = 24;
const SLOT_BYTES = 8;
/** From here on, a position cannot grow: the next integer is not another number. */
export const MAX_POSITION = 2 ** 53;
/** How far a position can be ahead of the store's clock, which may have been set back: a day. */
export const MAX_AHEAD_MICROS = 86_400_000_000;
/** With room to spare: a log may exceed its size by one record. */
export const MAX_RECORD_BYTES = 2 * 1024 * 1024;
export const MAGIC: Buffer = Buffer.from("gc clk\x00\x01", "latin1");

/** What an invalidation does. Their numbers in the log are their places here. */
const RECORD_KINDS = ["epoch", "hard", "soft", "begin", "end"] as const;
export type RecordKind = (typeof RECORD_KINDS)[number];

/** Processes whose keys have another form cannot tell which are meant, and take all. */
export interface InvalidatedForm {
  readonly coordinate: Subject;
  readonly form: Subject;
}

export interface ClockRecord {
  readonly kind: Exclude<RecordKind, "epoch">;
  readonly subjects: readonly Subject[];
  /** Default: no key is invalidated. */
  readonly forms?: readonly InvalidatedForm[] | undefined;
  /** Of a write, for `begin` and `end`: 8 bytes, as in `latin1`. */
  readonly writer?: string | undefined;
  /** For `begin`: how long the mark lasts unless it is ended or renewed, in milliseconds. */
  readonly guardMs?: number | undefined;
}

export interface ReadRecord {
  readonly position: number;
  /** 8 bytes, as in `latin1`. */
  readonly nonce: string;
  readonly kind: RecordKind;
  readonly subjects: readonly Subject[];
  readonly forms: readonly InvalidatedForm[];
  readonly writer: string;
  readonly guardMs: number;
  readonly bytes: number;
}

export interface ClockHead {
  /** 8 bytes, as in `latin1`. */
  readonly epoch: string;
  readonly position: number;
  readonly nonce: string;
  readonly beginsAt: number;
  readonly endsAt: number;
  readonly floor: number;
}

export interface ClockLog {
  readonly epoch: string;
  readonly floor: number;
  readonly beginsAt: number;
  readonly records: readonly ReadRecord[];
}

/** Returns the bytes of a record without its position: a store adds that. */
export function writeRecord({ kind, subjects, forms = [], writer = "", guardMs = 0 }: ClockRecord): Buffer {
  const ownSlots = kind === "begin" ? 2 : kind === "end" ? 1 : 0;
  const count = ownSlots + subjects.length + 2 * forms.length;
  const bytes = Buffer.alloc(RECORD_HEAD_BYTES - SLOT_BYTES + SLOT_BYTES * count);
  randomBytes(8).copy(bytes, 0);
  bytes.writeUInt16LE(RECORD_KINDS.indexOf(kind), 8);
  bytes.writeUInt16LE(forms.length, 10);
  bytes.writeUInt32LE(count, 12);
  if (ownSlots > 0) bytes.write(writer, 16, 8, "latin1");
  if (ownSlots > 1) bytes.writeDoubleLE(guardMs, 24);
  let at = 16 + SLOT_BYTES * ownSlots;
  for (const subject of subjects) at = bytes.writeDoubleLE(subject, at);
  for (const { coordinate, form } of forms) at = bytes.writeDoubleLE(form, bytes.writeDoubleLE(coordinate, at));
  return bytes;
}

const nonceOf = (record: Buffer): string => record.toString("latin1", 0, 8);

/** Returns what a head says. Undefined for any other bytes. */
export function readHead(bytes: Buffer | undefined): ClockHead | undefined {
  if (bytes === undefined || bytes.length !== HEAD_BYTES || !MAGIC.equals(bytes.subarray(0, 8))) return undefined;
  const position = bytes.readDoubleLE(16);
  const beginsAt = bytes.readDoubleLE(32);
  const endsAt = bytes.readDoubleLE(40);
  const floor = bytes.readDoubleLE(48);
  if (!(position >= floor && position < MAX_POSITION && endsAt > beginsAt && beginsAt >= 0)) return undefined;
  const epoch = bytes.toString("latin1", 8, 16);
  return { epoch, position, nonce: bytes.toString("latin1", 24, 32), beginsAt, endsAt, floor };
}

/** Whether it is the head after the last of `records`: only then an invalidation is confirmed. */
export function isHeadAfter(bytes: Buffer | undefined, records: readonly Buffer[]): boolean {
  const last = records.at(-1);
  const head = readHead(bytes);
  return head !== undefined && (last === undefined || head.nonce === nonceOf(last));
}

function writeHead({ epoch, position, nonce, beginsAt, endsAt, floor }: ClockHead): Buffer {
  const bytes = Buffer.alloc(HEAD_BYTES);
  MAGIC.copy(bytes);
  bytes.write(epoch, 8, "latin1");
  bytes.writeDoubleLE(position, 16);
  bytes.write(nonce, 24, "latin1");
  writeDoubles(bytes, 32, beginsAt, endsAt, floor);
  return bytes;
}

function writeDoubles(bytes: Buffer, at: number, ...numbers: readonly number[]): void {
  for (const [nth, number] of numbers.entries()) bytes.writeDoubleLE(number, at + 8 * nth);
}

/** Returns the records in a part of a log. Undefined for incomplete or unordered ones. */
export function readRecords(bytes: Buffer, from = 0): readonly ReadRecord[] | undefined {
  const records: ReadRecord[] = [];
  let at = from;
  let position = Number.NEGATIVE_INFINITY;
  while (at < bytes.length) {
    if (at + RECORD_HEAD_BYTES > bytes.length) return undefined;
    const kind = RECORD_KINDS[bytes.readUInt16LE(at + 16)];
    const formCount = bytes.readUInt16LE(at + 18);
    const slots = bytes.readUInt32LE(at + 20);
    const length = RECORD_HEAD_BYTES + SLOT_BYTES * slots;
    const ownSlots = kind === "begin" ? 2 : kind === "end" ? 1 : 0;
    const formsFrom = slots - 2 * formCount;
    if (kind === undefined || formsFrom < ownSlots || at + length > bytes.length) return undefined;
    const before = position;
    position = bytes.readDoubleLE(at);
    if (!(position > before && position < MAX_POSITION)) return undefined;
    const slotsAt = at + RECORD_HEAD_BYTES;
    const slotAt = (nth: number): number => bytes.readDoubleLE(slotsAt + SLOT_BYTES * nth);
    const subjects = new Array<Subject>(formsFrom - ownSlots);
    for (let nth = ownSlots; nth < formsFrom; nth++) subjects[nth - ownSlots] = slotAt(nth);
    const forms: InvalidatedForm[] = [];
    for (let nth = formsFrom; nth < slots; nth += 2) forms.push({ coordinate: slotAt(nth), form: slotAt(nth + 1) });
    records.push({
      position,
      nonce: bytes.toString("latin1", at + 8, at + 16),
      kind,
      subjects,
      forms,
      writer: ownSlots > 0 ? bytes.toString("latin1", slotsAt, slotsAt + SLOT_BYTES) : "",
      guardMs: ownSlots > 1 ? bytes.readDoubleLE(slotsAt + SLOT_BYTES) : 0,
      bytes: length,
    });
    at += length;
  }
  return records;
}

export interface StoredClock {
  readonly head: Buffer;
  readonly log: Buffer;
}

/**
 * Returns the clock with `records` at its end, as `writeRecord` returns them; without records, the
 * clock itself, or a new one if there is none. Changes no bytes of `clock`. A log with more than
 * `maxBytes` loses its older half. The Redis script `append-clock` is the same in Lua. `micros`:
 * the store's clock, or later. `lostEpoch`: see `Store.appendClock`.
 */
export function appendToClock(
  clock: StoredClock | undefined,
  records: readonly Buffer[],
  micros: number,
  maxBytes: number,
  lostEpoch?: string,
): StoredClock {
  const shown = clock && readHead(clock.head);
  const head = shown !== undefined && shown.position <= micros + MAX_AHEAD_MICROS ? shown : undefined;
  const isWhole =
    clock !== undefined &&
    head !== undefined &&
    clock.log.length - LOG_HEAD_BYTES === head.endsAt - head.beginsAt &&
    MAGIC.equals(clock.log.subarray(0, 8)) &&
    clock.log.toString("latin1", 8, 16) === head.epoch &&
    clock.log.length <= maxBytes + MAX_RECORD_BYTES &&
    isCut(clock.log.readDoubleLE(32), head) &&
    head.epoch !== lostEpoch;
  if (!isWhole) return appendToClock(beginClock(Math.max(micros, head?.position ?? 0)), records, micros, maxBytes);
  if (records.length === 0) return clock;
  let { position, nonce, beginsAt, endsAt, floor } = head;
  let { log } = clock;
  for (const record of records) {
    const before = position;
    position = Math.max(position + 1, micros);
    nonce = nonceOf(record);
    const isHalf = log.length + record.length + 8 > maxBytes / 2;
    if (isHalf && log.readDoubleLE(32) === 0) {
      log = Buffer.from(log);
      writeDoubles(log, 32, endsAt, before);
    }
    log = bytesOf([log, position, record]);
    endsAt += 8 + record.length;
    if (log.length > maxBytes) {
      const cutAt = log.readDoubleLE(32);
      floor = log.readDoubleLE(40);
      const kept = log.subarray(LOG_HEAD_BYTES + cutAt - beginsAt);
      beginsAt = cutAt;
      log = Buffer.concat([log.subarray(0, LOG_HEAD_BYTES), kept]);
      writeDoubles(log, 16, floor, beginsAt, 0, 0);
    }
  }
  return { head: writeHead({ epoch: head.epoch, position, nonce, beginsAt, endsAt, floor }), log };
}

/** 0: that is not decided. */
const isCut = (at: number, { beginsAt, endsAt }: ClockHead): boolean => at === 0 || (at > beginsAt && at < endsAt);

/** Returns a clock of a new epoch, for which what is older than `micros` counts for nothing. */
function beginClock(micros: number): StoredClock {
  const epoch = randomBytes(8).toString("latin1");
  const nonce = randomBytes(8).toString("latin1");
  const log = Buffer.alloc(LOG_HEAD_BYTES + RECORD_HEAD_BYTES);
  MAGIC.copy(log);
  log.write(epoch, 8, "latin1");
  log.writeDoubleLE(micros, 16);
  log.writeDoubleLE(micros, LOG_HEAD_BYTES);
  log.write(nonce, LOG_HEAD_BYTES + 8, "latin1");
  const head = { epoch, position: micros, nonce, beginsAt: 0, endsAt: RECORD_HEAD_BYTES, floor: micros };
  return { head: writeHead(head), log };
}

/**
 * Appends records so that every copy shows them, or a later head of the same log. A copy that shows
 * a later position which the log does not have was raised by a log that has been lost since: what
 * is stored under that position must not count as later than these records, so they are appended
 * once more, above it. Without records, one that invalidates nothing is appended there: otherwise
 * nobody would find in the log what the copy shows.
 */
export async function appendToCopies(
  clock: CopiedClock,
  records: readonly Buffer[],
  lostEpoch?: string,
): Promise<Buffer> {
  let toAppend = records;
  let after = 0;
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const bytes = await clock.append(toAppend, after, lostEpoch);
    const head = readHead(bytes) as ClockHead;
    const later = (await clock.raise(bytes)).map(readHead).filter((shown) => isOther(shown, head)) as ClockHead[];
    if (later.length === 0) return bytes;
    // Another process may have appended to the same log meanwhile. If the log is another one by
    // now, or has dropped records, nothing is found in these bytes, and appending again does no
    // harm.
    const since =
      readRecords((await clock.read(LOG_HEAD_BYTES + head.endsAt - head.beginsAt)) ?? Buffer.alloc(0)) ?? [];
    const foreign = later.filter(
      ({ epoch, position, nonce }) =>
        epoch !== head.epoch || !since.some((record) => record.position === position && record.nonce === nonce),
    );
    if (foreign.length === 0) return bytes;
    after = Math.max(...foreign.map(({ position }) => position));
    if (records.length === 0) toAppend = [writeRecord({ kind: "hard", subjects: [] })];
  }
  throw new Error(
    "a copy of the invalidation clock shows a later position than its log; check the clocks of the servers",
  );
}

/** How a store with several nodes keeps the clock: a log on one of them, and copies of its head. */
export interface CopiedClock {
  /**
   * Appends the records to the log, at positions later than `after`. Resolves to the head of the
   * log. `lostEpoch`: see `Store.appendClock`.
   */
  append(records: readonly Buffer[], after: number, lostEpoch?: string): Promise<Buffer>;
  /**
   * Writes a head to each copy that has an earlier one, one that is too far ahead of the clock of
   * its node, or none. Resolves to what they show then. Rejects if one is not known to show it.
   */
  raise(head: Buffer): Promise<readonly Buffer[]>;
  read(from: number): Promise<Buffer | undefined>;
}

const MAX_ATTEMPTS = 5;

const isOther = (shown: ClockHead | undefined, { position, nonce }: ClockHead): boolean =>
  shown !== undefined && (shown.position > position || (shown.position === position && shown.nonce !== nonce));

/** Returns the later one of two heads. Undefined if neither is one. */
export function laterHead(one: Buffer | undefined, other: Buffer | undefined): Buffer | undefined {
  const [first, second] = [readHead(one), readHead(other)];
  if (first === undefined || second === undefined) return first ? one : second && other;
  return first.position < second.position ? other : one;
}
