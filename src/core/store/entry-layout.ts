import { CHECK_AT, CHECK_LENGTH, checkOf, type Key, type Subject } from "../keys/key.js";
import type { Entry, EntryState } from "./entry.js";
import type { StoredEntry } from "./transitions.js";

/**
 * Reads the fields that readers see from the bytes of one entry; see `writeStoredEntry` for the
 * layout. Returns undefined for bytes of any other format, which a store treats as an absent entry
 * when reading and as `unknown-format` when acquiring. `body` is a view of `bytes`, not a copy.
 */
export function readEntry(bytes: Buffer): Entry | undefined {
  if (bytes.length < MIN_BYTES || bytes[0] !== MAGIC || bytes[1] !== FORMAT_VERSION) return undefined;
  const state = STATES.get(bytes[STATE_AT] as number);
  if (state === undefined) return undefined;
  const flags = bytes[FLAGS_AT] as number;
  const isPending = state === "pending";
  const isValue = state === "value";
  const hasLease = isPending || (isValue && (flags & HAS_LEASE) !== 0);
  const bodyAt = isPending ? COMMON_BYTES : isValue ? BODY_OF_VALUE_AT : BODY_AT;
  const leaseAt = bytes.length - LEASE_BYTES;
  const bodyEnd = hasLease ? leaseAt : bytes.length;
  if (isPending ? bodyEnd !== bodyAt : bodyEnd < bodyAt) return undefined;
  const untilAt = hasLease ? bytes.readDoubleLE(leaseAt + 2 * ID_BYTES) : isValue ? 0 : bytes.readDoubleLE(UNTIL_AT);
  const freshUntilAt = isValue ? bytes.readDoubleLE(FRESH_UNTIL_AT) : 0;
  const grantedAt = isValue ? bytes.readDoubleLE(GRANTED_AT) : 0;
  const position = bytes.readDoubleLE(POSITION_AT);
  const leasePosition = hasLease ? bytes.readDoubleLE(leaseAt + 2 * ID_BYTES + 8) : 0;
  // One test for all: no clock shows times whose sum is not finite.
  if (!Number.isFinite(untilAt + freshUntilAt + grantedAt + position + leasePosition)) return undefined;
  return {
    state,
    isNegative: isValue && (flags & IS_NEGATIVE) !== 0,
    hasRefreshFailed: isValue && (flags & HAS_REFRESH_FAILED) !== 0,
    loadMs: isValue ? bytes.readUInt32LE(LOAD_MS_AT) : 0,
    gen: hasLease ? idAt(bytes, leaseAt) : "",
    token: hasLease ? idAt(bytes, leaseAt + ID_BYTES) : "",
    hasWaiters: (flags & HAS_WAITERS) !== 0,
    untilAt,
    freshUntilAt,
    grantedAt,
    epoch: bytes.toString("latin1", EPOCH_AT, POSITION_AT),
    position,
    leasePosition,
    body: bytes.subarray(bodyAt, bodyEnd),
  };
}

const MAGIC = 0x67;
const FORMAT_VERSION = 3;
const STATE_AT = 2;
const FLAGS_AT = 3;
const EPOCH_AT = 4;
const POSITION_AT = 12;
/** Of all states. */
const COMMON_BYTES = 20;
const UNTIL_AT = 20;
const BODY_AT = 28;
const FRESH_UNTIL_AT = 20;
const LOAD_MS_AT = 28;
const GRANTED_AT = 32;
const BODY_OF_VALUE_AT = 40;
const LEASE_BYTES = 48;
const ID_BYTES = 16;
/** A state that has nothing but an end. */
const MIN_BYTES = BODY_AT;

const LETTERS: Readonly<Record<EntryState, string>> = { pending: "P", value: "V", failed: "F", uncacheable: "X" };
const STATES = new Map(Object.entries(LETTERS).map(([state, letter]) => [letter.charCodeAt(0), state as EntryState]));
const HAS_WAITERS = 1;
const HAS_LEASE = 2;
const IS_NEGATIVE = 4;
const HAS_REFRESH_FAILED = 8;

/**
 * Reads all fields of an entry. `dropAt` is not part of the bytes: a store keeps it beside them, or
 * lets the server expire the key at that time. Returns undefined for bytes of any other format.
 */
export function readStoredEntry(bytes: Buffer, dropAt: number): StoredEntry | undefined {
  const entry = readEntry(bytes);
  return entry && { ...entry, token: entry.token ?? "", hasWaiters: entry.hasWaiters === true, dropAt };
}

/**
 * Writes an entry as the bytes that `readStoredEntry` reads. The layout, in little endian:
 *
 * | state | offset | bytes | field |
 * |---|---|---|---|
 * | all | 0 | 1 | magic `g` (0x67) |
 * | | 1 | 1 | format version, 3 |
 * | | 2 | 1 | state: `P` pending, `V` value, `F` failed, `X` uncacheable |
 * | | 3 | 1 | flags: 1 has waiters, 2 a value that is leased, 4 is negative, 8 has a failed refresh |
 * | | 4 | 8 | epoch of the invalidation clock |
 * | | 12 | 8 | position, f64 |
 * | pending | 20 | 48 | the lease: gen (16), token (16), untilAt (f64), position (f64) |
 * | value | 20 | 8 | freshUntilAt, f64 |
 * | | 28 | 4 | loadMs, u32 |
 * | | 32 | 8 | grantedAt, f64 |
 * | | 40 | … | body |
 * | | end | 48 | if the value is leased, the lease |
 * | others | 20 | 8 | untilAt, f64 |
 * | | 28 | … | body |
 *
 * A lease is the end of its entry: a store grants one on a large value by appending it, and values,
 * most of which are not leased, are smaller.
 */
export const writeStoredEntry = (entry: StoredEntry): Buffer => bytesOf(entryParts(entry));

/** Returns what `bytesOf` makes an entry of: of a value, 40 bytes and its body. */
export function entryParts(entry: StoredEntry): readonly BytePart[] {
  const { state, gen, epoch, position, untilAt, leasePosition = 0, body } = entry;
  const isLeased = state === "value" && gen !== "";
  const flags =
    (entry.hasWaiters ? HAS_WAITERS : 0) +
    (isLeased ? HAS_LEASE : 0) +
    (entry.isNegative ? IS_NEGATIVE : 0) +
    (entry.hasRefreshFailed ? HAS_REFRESH_FAILED : 0);
  const start = String.fromCharCode(MAGIC, FORMAT_VERSION) + LETTERS[state] + String.fromCharCode(flags);
  const lease = [gen, entry.token, untilAt, leasePosition];
  if (state === "pending") return [start, epoch, position, ...lease];
  if (state !== "value") return [start, epoch, position, untilAt, body];
  const loadMs = uint32Of(Math.min(Math.round(entry.loadMs), 0xffff_ffff));
  const value = [start, epoch, position, entry.freshUntilAt, loadMs, entry.grantedAt, body];
  return isLeased ? [...value, ...lease] : value;
}

/** A number is written as f64, little endian, and a string as in `latin1`. */
export type BytePart = number | string | Uint8Array;

export function bytesOf(parts: readonly BytePart[]): Buffer {
  let length = 0;
  for (const part of parts) length += typeof part === "number" ? 8 : part.length;
  const bytes = Buffer.allocUnsafe(length);
  let at = 0;
  for (const part of parts)
    if (typeof part === "number") at = bytes.writeDoubleLE(part, at);
    else {
      if (typeof part === "string") bytes.write(part, at, "latin1");
      else bytes.set(part, at);
      at += part.length;
    }
  return bytes;
}

function uint32Of(number: number): Buffer {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeUInt32LE(number);
  return bytes;
}

const idAt = (bytes: Buffer, at: number): string => bytes.toString("latin1", at, at + ID_BYTES);

/**
 * Encodes the body of a value of `key`. Layout: layout version 5, times 8, and the flags of its
 * parts (u8); the check; if there are any, hint and own freshness (length, u32, and JSON), and tags
 * (count, u32, and the subject of each, f64); value. Numbers are little endian.
 */
export function writeBody({ subjects, hint, freshness, value }: Body, key: Pick<Key, "hash">): Buffer {
  const parts: BytePart[] = [];
  let layout = LAYOUT_VERSION;
  if (hint !== undefined || freshness !== undefined) {
    layout |= HAS_TEXT;
    const text = Buffer.from(JSON.stringify({ hint, freshness }), "utf8");
    parts.push(uint32Of(text.length), text);
  }
  if (subjects.length > 0) {
    layout |= HAS_TAGS;
    parts.push(uint32Of(subjects.length), ...subjects);
  }
  return bytesOf([String.fromCharCode(layout), checkOf(key), ...parts, value]);
}

/** The cache hint that a load gave for its response: for how long others may cache it, and who. */
export interface ResponseHint {
  /** Seconds. */
  readonly maxAge?: number;
  readonly scope?: "PUBLIC" | "PRIVATE";
}

/** How long one result is served, in milliseconds, where that is not what the policy says. */
export interface OwnFreshness {
  readonly maxAgeMs?: number;
  readonly staleWhileRevalidateMs?: number;
}

interface BodyParts {
  /** All tags of the value: those known before its load, and those derived from it. */
  readonly subjects: readonly Subject[];
  readonly hint: ResponseHint | undefined;
  /** Undefined: the policy decides. */
  readonly freshness?: OwnFreshness | undefined;
}

export interface Body extends BodyParts {
  readonly value: Uint8Array;
}

/** The same as read: the value begins at `valueAt` and ends with the bytes. */
export interface ReadBody extends BodyParts {
  readonly valueAt: number;
}

/** The first byte of every body: this, and the flags of its parts. */
const LAYOUT_VERSION = 5 << 3;
const HAS_TEXT = 2;
const HAS_TAGS = 4;
const ALL_PARTS = HAS_TEXT | HAS_TAGS;
const STORED_CHECK_AT = 1;
const HEAD_BYTES = STORED_CHECK_AT + CHECK_LENGTH;
const NO_TEXT = { hint: undefined, freshness: undefined };
const WITHOUT_PARTS: ReadBody = { ...NO_TEXT, subjects: [], valueAt: HEAD_BYTES };
const LENGTH_BYTES = 4;
const SUBJECT_BYTES = 8;

/** Decodes what `writeBody` returns. `collision`: of another key. Undefined for other bytes. */
export function readBody(buffer: Buffer, { hash }: Pick<Key, "hash">): ReadBody | "collision" | undefined {
  const parts = (buffer[0] ?? 0) ^ LAYOUT_VERSION;
  if (buffer.length < HEAD_BYTES || (parts & ~ALL_PARTS) !== 0) return undefined;
  if (buffer.toString("latin1", STORED_CHECK_AT, HEAD_BYTES) !== hash.slice(CHECK_AT)) return "collision";
  if (parts === 0) return WITHOUT_PARTS;
  let at = HEAD_BYTES;
  let text: Pick<Body, "hint" | "freshness"> = NO_TEXT;
  const subjects: Subject[] = [];
  try {
    if ((parts & HAS_TEXT) !== 0) {
      const end = at + LENGTH_BYTES + buffer.readUInt32LE(at);
      const written: unknown = JSON.parse(buffer.toString("utf8", at + LENGTH_BYTES, end));
      if (!isText(written)) return undefined;
      text = written;
      at = end;
    }
    if ((parts & HAS_TAGS) !== 0) {
      const count = buffer.readUInt32LE(at);
      at += LENGTH_BYTES;
      if (at + SUBJECT_BYTES * count > buffer.length) return undefined;
      for (; subjects.length < count; at += SUBJECT_BYTES) subjects.push(buffer.readDoubleLE(at));
    }
  } catch {
    return undefined;
  }
  // A part that is longer than the bytes.
  if (at > buffer.length) return undefined;
  return { subjects, hint: text.hint, freshness: text.freshness, valueAt: at };
}

/** Hints end up in headers, and others may write under the prefix. */
function isText(written: unknown): written is Pick<Body, "hint" | "freshness"> {
  const isScope = (value: unknown): boolean => value === "PUBLIC" || value === "PRIVATE";
  return hasOnly(written, {
    hint: (hint) => hasOnly(hint, { maxAge: isDuration, scope: isScope }),
    freshness: (freshness) => hasOnly(freshness, { maxAgeMs: isDuration, staleWhileRevalidateMs: isDuration }),
  });
}

const hasOnly = (value: unknown, checks: Readonly<Record<string, (member: unknown) => boolean>>): boolean =>
  typeof value === "object" &&
  value !== null &&
  Object.entries(value).every(([name, member]) => Object.hasOwn(checks, name) && checks[name]?.(member) === true);

const isDuration = (value: unknown): boolean => typeof value === "number" && Number.isFinite(value) && value >= 0;

/** Resolvers can set anything: what is no number counts as 0, and what is no scope as PRIVATE. */
export function validHint({ maxAge, scope }: { readonly maxAge?: unknown; readonly scope?: unknown }): ResponseHint {
  return {
    ...(maxAge === undefined || maxAge === null ? {} : { maxAge: isDuration(maxAge) ? (maxAge as number) : 0 }),
    ...(scope === undefined || scope === null ? {} : { scope: scope === "PUBLIC" ? scope : ("PRIVATE" as const) }),
  };
}
