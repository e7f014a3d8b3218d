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
/** The end of the part that all states have in common. */
const COMMON_BYTES = 20;
const UNTIL_AT = 20;
const BODY_AT = 28;
const FRESH_UNTIL_AT = 20;
const LOAD_MS_AT = 28;
const GRANTED_AT = 32;
const BODY_OF_VALUE_AT = 40;
const LEASE_BYTES = 48;
const ID_BYTES = 16;
/** The length of the shortest entry: a state that has nothing but an end. */
const MIN_BYTES = BODY_AT;

const LETTERS: Readonly<Record<EntryState, string>> = {
  pending: "P",
  value: "V",
  failed: "F",
  uncacheable: "X",
};
const STATES = new Map(Object.entries(LETTERS).map(([state, letter]) => [letter.charCodeAt(0), state as EntryState]));
const HAS_WAITERS = 1;
const HAS_LEASE = 2;
const IS_NEGATIVE = 4;
const HAS_REFRESH_FAILED = 8;
const EMPTY = Buffer.alloc(0);

/**
 * Reads all fields of an entry. `dropAt` is not part of the bytes: a store keeps it beside them, or
 * lets the server expire the key at that time. Returns undefined for bytes of any other format.
 */
export function readStoredEntry(bytes: Buffer, dropAt: number): StoredEntry | undefined {
  const entry = readEntry(bytes);
  if (entry === undefined) return undefined;
  return { ...entry, token: entry.token ?? "", hasWaiters: entry.hasWaiters === true, dropAt };
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
export function writeStoredEntry(entry: StoredEntry): Buffer {
  const { state, gen, body, hasWaiters, isNegative, hasRefreshFailed } = entry;
  const head = Buffer.alloc(state === "value" ? BODY_OF_VALUE_AT : state === "pending" ? COMMON_BYTES : BODY_AT);
  head[0] = MAGIC;
  head[1] = FORMAT_VERSION;
  head.write(LETTERS[state], STATE_AT, "latin1");
  head[FLAGS_AT] =
    (hasWaiters ? HAS_WAITERS : 0) +
    (state === "value" && gen !== "" ? HAS_LEASE : 0) +
    (isNegative ? IS_NEGATIVE : 0) +
    (hasRefreshFailed ? HAS_REFRESH_FAILED : 0);
  head.write(entry.epoch, EPOCH_AT, "latin1");
  head.writeDoubleLE(entry.position, POSITION_AT);
  if (state === "pending") return Buffer.concat([head, leaseBytes(entry)]);
  if (state === "value") {
    head.writeDoubleLE(entry.freshUntilAt, FRESH_UNTIL_AT);
    head.writeUInt32LE(Math.min(Math.round(entry.loadMs), 0xffff_ffff), LOAD_MS_AT);
    head.writeDoubleLE(entry.grantedAt, GRANTED_AT);
    return Buffer.concat([head, body, gen === "" ? EMPTY : leaseBytes(entry)]);
  }
  head.writeDoubleLE(entry.untilAt, UNTIL_AT);
  return Buffer.concat([head, body]);
}

/** Splits the bytes of an entry into what is before its epoch and position and what follows, without copying. */
export const splitAtOrigin = (bytes: Buffer): readonly [Buffer, Buffer] => [
  bytes.subarray(0, EPOCH_AT),
  bytes.subarray(COMMON_BYTES),
];

function leaseBytes({ gen, token, untilAt, leasePosition = 0 }: StoredEntry): Buffer {
  const bytes = Buffer.alloc(LEASE_BYTES);
  bytes.write(gen, 0, "latin1");
  bytes.write(token, ID_BYTES, "latin1");
  bytes.writeDoubleLE(untilAt, 2 * ID_BYTES);
  bytes.writeDoubleLE(leasePosition, 2 * ID_BYTES + 8);
  return bytes;
}

const idAt = (bytes: Buffer, at: number): string => bytes.toString("latin1", at, at + ID_BYTES);
