import { readEntry } from "../../core/store/entry-layout.js";
import type { Grant } from "../../core/store/store.js";

const GEN_BYTES = 16;
/** The time in microseconds of a lease chain that has begun, and the position of its lease. */
const BEGUN_BYTES = 16;
const TIME_BYTES = 8;
/** The gen of a lease that another caller holds, and the remaining time. */
const BUSY_BYTES = GEN_BYTES + 8;

/**
 * Parses the reply of the script `acquire` for one key, which was requested with `token`: bytes that
 * are told apart by their length, or a status word followed by its details.
 */
export function readGrant(reply: unknown, token: Buffer): Grant {
  if (reply instanceof Error) return { kind: "unavailable", error: reply };
  if (Buffer.isBuffer(reply)) {
    if (reply.length === BEGUN_BYTES) {
      const gen = Buffer.concat([reply.subarray(0, TIME_BYTES), token], GEN_BYTES).toString("latin1");
      const grantedAt = Math.floor(Number(reply.readBigUInt64BE()) / 1000);
      const position = reply.readDoubleLE(TIME_BYTES);
      return { kind: "granted", gen, token: token.toString("latin1"), grantedAt, position, isTakenOver: false };
    }
    if (reply.length === BUSY_BYTES)
      return { kind: "busy", gen: reply.toString("latin1", 0, GEN_BYTES), remainingMs: reply.readDoubleLE(GEN_BYTES) };
  }
  if (!Array.isArray(reply)) return { kind: "expired" };
  const [status, ...rest] = reply as [Buffer, ...Buffer[]];
  const text = (at: number): string => (rest[at] as Buffer).toString("latin1");
  switch (status.toString()) {
    case "granted":
      return {
        kind: "granted",
        gen: text(0),
        token: token.toString("latin1"),
        grantedAt: Number(text(1)),
        position: (rest[3] as Buffer).readDoubleLE(),
        isTakenOver: Number(rest[2]) === 1,
      };
    case "value": {
      const entry = readEntry(rest[0] as Buffer);
      return entry === undefined ? { kind: "unknown-format" } : { kind: "value", entry, now: Number(text(1)) };
    }
    case "failed":
      return { kind: "failed", body: rest[0] as Buffer };
    case "uncacheable":
      return { kind: "uncacheable" };
    default:
      return { kind: "unknown-format" };
  }
}
