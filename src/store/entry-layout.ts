import { type Entry, type EntryState, NO_SIGNATURE } from "./entry.js";
import type { StoredEntry, Writer } from "./transitions.js";

/** The length of the fixed part of an entry; see `writeStoredEntry` for the layout. */
export const HEAD_BYTES = 72;
/** A writer in the body of a mark: its id, and the instant at which its mark ends, f64. */
const WRITER_BYTES = 24;
/** The length of a gen or token. */
const ID_BYTES = 16;
const MAGIC = 0x67;
const FORMAT_VERSION = 1;
const STATES: Readonly<Record<string, EntryState>> = {
  P: "pending",
  V: "value",
  F: "failed",
  X: "uncacheable",
  T: "write-in-progress",
};
/** The states, indexed by the character code of their letter. */
const STATE_OF_CODE: readonly (EntryState | undefined)[] = Array.from(
  { length: 128 },
  (_, code) => STATES[String.fromCharCode(code)],
);
const LETTERS = new Map(Object.entries(STATES).map(([letter, state]) => [state, letter]));
const HAS_WAITERS = 1;
const IS_NEGATIVE = 4;
const HAS_REFRESH_FAILED = 8;

/**
 * Reads the fields that readers see from the bytes of one entry; see `writeStoredEntry` for the
 * layout. Returns undefined for bytes of any other format, which a store treats as an absent entry
 * when reading and as `unknown-format` when acquiring. `body` is a view of `bytes`, not a copy.
 */
export function readEntry(bytes: Buffer): Entry | undefined {
  if (bytes.length < HEAD_BYTES || bytes[0] !== MAGIC || bytes[1] !== FORMAT_VERSION) return undefined;
  const state = STATE_OF_CODE[bytes[2] as number];
  if (state === undefined) return undefined;
  const flags = bytes[3] as number;
  return {
    state,
    isNegative: (flags & IS_NEGATIVE) !== 0,
    hasRefreshFailed: (flags & HAS_REFRESH_FAILED) !== 0,
    loadMs: bytes.readUInt32LE(4),
    gen: idAt(bytes, 8),
    untilAt: bytes.readDoubleLE(40),
    freshUntilAt: bytes.readDoubleLE(48),
    grantedAt: bytes.readDoubleLE(56),
    signature: isZero(bytes, 64, HEAD_BYTES) ? NO_SIGNATURE : bytes.toString("latin1", 64, HEAD_BYTES),
    body: bytes.subarray(HEAD_BYTES),
  };
}

/**
 * Reads all fields of an entry. `dropAt` is not part of the bytes: a store keeps it beside them, or
 * lets the server expire the key at that time. Returns undefined for bytes of any other format.
 */
export function readStoredEntry(bytes: Buffer, dropAt: number): StoredEntry | undefined {
  const entry = readEntry(bytes);
  if (entry === undefined) return undefined;
  const writers: Writer[] = [];
  if (entry.state === "write-in-progress")
    for (let at = HEAD_BYTES; at + WRITER_BYTES <= bytes.length; at += WRITER_BYTES)
      writers.push({ id: bytes.toString("latin1", at, at + ID_BYTES), endsAt: bytes.readDoubleLE(at + ID_BYTES) });
  const hasWaiters = ((bytes[3] as number) & HAS_WAITERS) !== 0;
  return { ...entry, token: idAt(bytes, 24), hasWaiters, dropAt, writers };
}

/**
 * Writes an entry as the bytes that `readStoredEntry` reads. The layout, in little endian:
 *
 * | offset | bytes | field |
 * |---|---|---|
 * | 0 | 1 | magic `g` (0x67) |
 * | 1 | 1 | format version, 1 |
 * | 2 | 1 | state: `P` pending, `V` value, `F` failed, `X` uncacheable, `T` write in progress |
 * | 3 | 1 | flags: 1 has waiters, 4 is negative, 8 has a failed refresh |
 * | 4 | 4 | loadMs, u32 |
 * | 8 | 16 | gen; all zeros without a lease |
 * | 24 | 16 | token; all zeros without a lease |
 * | 40 | 8 | untilAt, f64 |
 * | 48 | 8 | freshUntilAt, f64 |
 * | 56 | 8 | grantedAt, f64 |
 * | 64 | 8 | signature; all zeros without tags |
 * | 72 | … | body; for a write in progress, 24 bytes per writer: its id (16) and the end of its mark (f64) |
 *
 * The fixed head lets a store grant a lease on a large value by rewriting a few bytes.
 */
export function writeStoredEntry(entry: StoredEntry): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head[0] = MAGIC;
  head[1] = FORMAT_VERSION;
  head.write(LETTERS.get(entry.state) as string, 2, "latin1");
  head[3] =
    (entry.hasWaiters ? HAS_WAITERS : 0) +
    (entry.isNegative ? IS_NEGATIVE : 0) +
    (entry.hasRefreshFailed ? HAS_REFRESH_FAILED : 0);
  head.writeUInt32LE(Math.min(Math.round(entry.loadMs), 0xffff_ffff), 4);
  head.write(entry.gen, 8, "latin1");
  head.write(entry.token, 24, "latin1");
  head.writeDoubleLE(entry.untilAt, 40);
  head.writeDoubleLE(entry.freshUntilAt, 48);
  head.writeDoubleLE(entry.grantedAt, 56);
  head.write(entry.signature, 64, "latin1");
  return Buffer.concat([
    head,
    ...(entry.state === "write-in-progress" ? entry.writers.map(writeWriter) : [entry.body]),
  ]);
}

function writeWriter({ id, endsAt }: Writer): Buffer {
  const bytes = Buffer.alloc(WRITER_BYTES);
  bytes.write(id, 0, "latin1");
  bytes.writeDoubleLE(endsAt, ID_BYTES);
  return bytes;
}

function idAt(bytes: Buffer, at: number): string {
  return isZero(bytes, at, at + ID_BYTES) ? "" : bytes.toString("latin1", at, at + ID_BYTES);
}

/** Most entries have no lease and no tags; this detects them without creating a string. */
function isZero(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] !== 0) return false;
  return true;
}
