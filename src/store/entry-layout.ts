import { type Entry, type EntryState, NO_SIGNATURE } from "./entry.js";
import type { StoredEntry } from "./transitions.js";

export const HEAD_BYTES = 72;
const WRITER_BYTES = 16;
const NAME_BYTES = 16;
const STATES: Readonly<Record<string, EntryState>> = {
  P: "pending",
  V: "value",
  F: "failed",
  X: "uncacheable",
  T: "write-in-progress",
};
/** By the letter's code. */
const STATE_AT: readonly (EntryState | undefined)[] = Array.from(
  { length: 128 },
  (_, code) => STATES[String.fromCharCode(code)],
);
const LETTERS = new Map(Object.entries(STATES).map(([letter, state]) => [state, letter]));
const WAITERS = 1;
const NEGATIVE = 4;
const REFRESH_FAILED = 8;

/** Reads the bytes of one entry; the layout is in README.md beside this file. Undefined for whatever is no entry of this format. */
export function readEntry(bytes: Buffer): Entry | undefined {
  if (bytes.length < HEAD_BYTES || bytes[0] !== 0x67 || bytes[1] !== 1) return undefined;
  const state = STATE_AT[bytes[2] as number];
  if (state === undefined) return undefined;
  const flags = bytes[3] as number;
  return {
    state,
    isNegative: (flags & NEGATIVE) !== 0,
    hasRefreshFailed: (flags & REFRESH_FAILED) !== 0,
    loadMs: bytes.readUInt32LE(4),
    gen: nameAt(bytes, 8),
    untilAt: bytes.readDoubleLE(40),
    freshUntilAt: bytes.readDoubleLE(48),
    grantedAt: bytes.readDoubleLE(56),
    signature: isZero(bytes, 64, HEAD_BYTES) ? NO_SIGNATURE : bytes.toString("latin1", 64, HEAD_BYTES),
    body: bytes.subarray(HEAD_BYTES),
  };
}

/** The whole stored from the same bytes; only when it is to be dropped is not in them. */
export function readStoredEntry(bytes: Buffer, dropAt: number): StoredEntry | undefined {
  const entry = readEntry(bytes);
  if (entry === undefined) return undefined;
  const writers: string[] = [];
  if (entry.state === "write-in-progress")
    for (let at = HEAD_BYTES; at < bytes.length; at += WRITER_BYTES)
      writers.push(bytes.toString("latin1", at, at + WRITER_BYTES));
  const hasWaiters = ((bytes[3] as number) & WAITERS) !== 0;
  return { ...entry, token: nameAt(bytes, 24), hasWaiters, dropAt, writers };
}

/** The bytes that `readStoredEntry` reads. */
export function writeStoredEntry(stored: StoredEntry): Buffer {
  const head = Buffer.alloc(HEAD_BYTES);
  head.write(`g\u0001${LETTERS.get(stored.state)}`, 0, "latin1");
  head[3] =
    (stored.hasWaiters ? WAITERS : 0) +
    (stored.isNegative ? NEGATIVE : 0) +
    (stored.hasRefreshFailed ? REFRESH_FAILED : 0);
  head.writeUInt32LE(Math.min(Math.round(stored.loadMs), 0xffff_ffff), 4);
  head.write(stored.gen, 8, "latin1");
  head.write(stored.token, 24, "latin1");
  head.writeDoubleLE(stored.untilAt, 40);
  head.writeDoubleLE(stored.freshUntilAt, 48);
  head.writeDoubleLE(stored.grantedAt, 56);
  head.write(stored.signature, 64, "latin1");
  return Buffer.concat([
    head,
    stored.state === "write-in-progress" ? Buffer.from(stored.writers.join(""), "latin1") : stored.body,
  ]);
}

function nameAt(bytes: Buffer, at: number): string {
  return isZero(bytes, at, at + NAME_BYTES) ? "" : bytes.toString("latin1", at, at + NAME_BYTES);
}

/** Most entries have no lease and no tags, and are told apart without making text of their bytes. */
function isZero(bytes: Buffer, from: number, to: number): boolean {
  for (let at = from; at < to; at++) if (bytes[at] !== 0) return false;
  return true;
}
