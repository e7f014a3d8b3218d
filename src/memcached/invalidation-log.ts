import { hash, randomBytes } from "node:crypto";
import type { LogPosition } from "../store/store.js";

/** The record of recent tag invalidations. Its times only order them: what is kept or forgotten by mistake of a clock costs loads, never truth. */
export interface InvalidationLog {
  readonly logId: string;
  /** The time of the last invalidation; it never goes back. */
  readonly at: number;
  /** Of invalidations up to this time some are forgotten. */
  readonly forgottenAt: number;
  /** When each tag was last invalidated, by a part of its digest: two tags with the same part are one to the record. */
  readonly tags: Readonly<Record<string, number>>;
}

/** A record that would be longer forgets everything. It is read and written as a whole. */
const MAX_TAGS = 5_000;

/** Undefined where the bytes are none of ours. */
export function readLog(bytes: Buffer): InvalidationLog | undefined {
  try {
    const { logId, at, forgottenAt, tags } = JSON.parse(bytes.toString("utf8")) as Partial<InvalidationLog>;
    if (typeof logId !== "string" || typeof at !== "number" || typeof forgottenAt !== "number") return undefined;
    return typeof tags === "object" && tags !== null ? { logId, at, forgottenAt, tags } : undefined;
  } catch {
    return undefined;
  }
}

export const writeLog = (record: InvalidationLog): Buffer => Buffer.from(JSON.stringify(record), "utf8");

export const beginLog = (): InvalidationLog => ({
  logId: randomBytes(6).toString("hex"),
  at: 0,
  forgottenAt: 0,
  tags: {},
});

/** The record with `tags` in it, and without what was noted more than `logRetentionMs` ago. */
export function logTags(
  record: InvalidationLog,
  tags: readonly string[],
  logRetentionMs: number,
  now: number,
): InvalidationLog {
  const at = Math.max(Math.floor(now), record.at + 1);
  const noted = Object.entries(record.tags);
  const kept = noted.filter(([, notedAt]) => notedAt >= at - logRetentionMs);
  if (kept.length + tags.length > MAX_TAGS) return { ...record, at, forgottenAt: at, tags: {} };
  const dropped = noted.filter(([, notedAt]) => notedAt < at - logRetentionMs).map(([, notedAt]) => notedAt);
  return {
    logId: record.logId,
    at,
    forgottenAt: Math.max(record.forgottenAt, ...dropped),
    tags: Object.fromEntries([...kept, ...tags.map((tag) => [partOf(tag), at] as const)]),
  };
}

/** Whether none of `tags` was invalidated since `position`; false also where that is forgotten. */
export const areUnchanged = (record: InvalidationLog, position: LogPosition, tags: readonly string[]): boolean =>
  record.logId === position.logId &&
  record.forgottenAt <= position.at &&
  tags.every((tag) => (record.tags[partOf(tag)] ?? 0) <= position.at);

const partOf = (tag: string): string => hash("sha256", tag, "base64url").slice(0, 12);
