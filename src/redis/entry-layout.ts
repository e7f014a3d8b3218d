import type { Entry, EntryState } from "../store/entry.js";

export const HEAD_BYTES = 72;
const NO_LEASE = "\0".repeat(16);
const STATES: Readonly<Record<string, EntryState>> = { P: "pending", V: "value", F: "failed", X: "pass", T: "fenced" };
const NEGATIVE = 4;
const RESCUED = 8;

/** Reads the bytes of one entry; the layout is in README.md beside this file. Undefined for whatever is no entry of this format. */
export function readEntry(bytes: Buffer): Entry | undefined {
  if (bytes.length < HEAD_BYTES || bytes[0] !== 0x67 || bytes[1] !== 1) return undefined;
  const state = STATES[String.fromCharCode(bytes[2] as number)];
  if (state === undefined) return undefined;
  const flags = bytes[3] as number;
  const gen = bytes.toString("latin1", 8, 24);
  return {
    state,
    isNegative: (flags & NEGATIVE) !== 0,
    isRescued: (flags & RESCUED) !== 0,
    loadMs: bytes.readUInt32LE(4),
    gen: gen === NO_LEASE ? "" : gen,
    untilAt: bytes.readDoubleLE(40),
    freshUntilAt: bytes.readDoubleLE(48),
    grantedAt: bytes.readDoubleLE(56),
    signature: bytes.toString("latin1", 64, 72),
    body: bytes.subarray(HEAD_BYTES),
  };
}
