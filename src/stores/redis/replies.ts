import { isError } from "../../core/base/built-in.js";
import { readEntry } from "../../core/store/entry-layout.js";
import type { Grant, Wake } from "../../core/store/store.js";

/** What Redis 6.2 to 8 reply to a user that may not do something, in a script as well. */
const MISSING_RIGHT = /^NOPERM\b|ACL failure in script|The user executing the script can't/;
/** What they reply to credentials that are wrong or missing. */
const WRONG_CREDENTIALS = /^(NOAUTH|WRONGPASS)\b/;

/** Whether a server has refused an operation for lack of a right: it will do so again. */
export const isMissingRight = (error: unknown): error is Error => isError(error) && MISSING_RIGHT.test(error.message);

/** Marks an error as `Store` says, if it is that of a missing right. Returns what it was given. */
export const markMissingRight = <Thrown>(error: Thrown): Thrown =>
  isMissingRight(error) ? Object.assign(error, { isMissingRight: true }) : error;

/** Whether a server has refused a connection, or what it was asked on it. */
export const isRefusal = (error: unknown): error is Error =>
  isMissingRight(error) || (isError(error) && WRONG_CREDENTIALS.test(error.message));

/** With the client option `stringNumbers`, integers are strings. All other strings are buffers. */
export const integerOf = (reply: unknown): unknown => (typeof reply === "string" ? Number(reply) : reply);

/**
 * Returns the reply `id`, which only this call was passed, and an Error for any other: a client may
 * mix up replies, as ioredis does on a Cluster whose nodes restart.
 */
export function checkReply(reply: unknown, id: Buffer): unknown {
  if (reply instanceof Error || (Buffer.isBuffer(reply) && reply.equals(id))) return reply;
  return new Error("expected the reply to this call, got another one from the client");
}

const GEN_BYTES = 16;
/** The time in microseconds of a lease chain that has begun, and the position of its lease. */
const BEGUN_BYTES = 16;
const TIME_BYTES = 8;
/** The gen of a lease that another caller holds, and the remaining time. */
const BUSY_BYTES = GEN_BYTES + 8;

/** The reply is bytes, told apart by their length, or a status word and its details. */
export function readGrant(reply: unknown, token: string): Grant {
  if (reply instanceof Error) return { kind: "unavailable", error: reply };
  if (Buffer.isBuffer(reply)) {
    if (reply.length === BEGUN_BYTES) {
      const gen = reply.toString("latin1", 0, TIME_BYTES) + token.slice(0, GEN_BYTES - TIME_BYTES);
      const grantedAt = Math.floor(Number(reply.readBigUInt64BE()) / 1000);
      const position = reply.readDoubleLE(TIME_BYTES);
      return { kind: "granted", gen, token, grantedAt, position };
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
        token,
        grantedAt: Number(text(1)),
        position: (rest[2] as Buffer).readDoubleLE(),
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

/** The bytes before the key: its length (u16, little endian) and the lease chain that has ended. */
const KEY_LENGTH_BYTES = 2;
const WAKEUP_HEAD_BYTES = KEY_LENGTH_BYTES + 16;

/** Parses what `wakeWaiters` writes. Every client of the server may publish on the channel. */
export function readWakeup(message: Buffer): Parameters<Wake> | undefined {
  if (message.length < WAKEUP_HEAD_BYTES) return undefined;
  const keyEnd = WAKEUP_HEAD_BYTES + message.readUInt16LE(0);
  if (message.length < keyEnd) return undefined;
  const entry = message.length > keyEnd ? readEntry(message.subarray(keyEnd)) : undefined;
  const key = message.toString("utf8", WAKEUP_HEAD_BYTES, keyEnd);
  return [key, entry, message.toString("latin1", KEY_LENGTH_BYTES, WAKEUP_HEAD_BYTES)];
}
