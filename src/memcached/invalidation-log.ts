import { hash, randomBytes } from "node:crypto";
import { MAX_TIMER_MS } from "../clock.js";

/**
 * The log of recent tag invalidations, one for each server. Its times only order them: an invalidation that is kept or
 * dropped because of a wrong clock costs loads, never correctness.
 */
export interface InvalidationLog {
  readonly logId: string;
  /** The time of the last invalidation. It never decreases. */
  readonly at: number;
  /** Invalidations up to this time may have been dropped from the log. */
  readonly forgottenAt: number;
  /** The longest retention that any process has requested from this log. */
  readonly retentionMs: number;
  /**
   * The time of each tag's last invalidation, by a prefix of the tag's digest. Tags with the same
   * prefix share a time.
   */
  readonly tags: Readonly<Record<string, number>>;
}

/**
 * A log that would have more tags drops all of them, since the log is read and written as a whole.
 */
const MAX_TAGS = 5_000;

/** Parses a log. Returns undefined if the bytes are not a log, or have times after which nothing could be later. */
export function readLog(bytes: Buffer): InvalidationLog | undefined {
  try {
    const { logId, at, forgottenAt, retentionMs, tags } = JSON.parse(
      bytes.toString("utf8"),
    ) as Partial<InvalidationLog>;
    if (typeof logId !== "string" || typeof tags !== "object" || tags === null) return undefined;
    if (!isCount(at) || !isCount(forgottenAt) || forgottenAt > at) return undefined;
    if (!isCount(retentionMs) || retentionMs > MAX_TIMER_MS) return undefined;
    return { logId, at, forgottenAt, retentionMs, tags };
  } catch {
    return undefined;
  }
}

const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && (value as number) >= 0;

export const writeLog = (log: InvalidationLog): Buffer => Buffer.from(JSON.stringify(log), "utf8");

export const beginLog = (): InvalidationLog => ({
  logId: randomBytes(6).toString("hex"),
  at: 0,
  forgottenAt: 0,
  retentionMs: 0,
  tags: {},
});

/**
 * Returns the log with `tags` appended and without invalidations older than its retention. The
 * retention is the longest that any process has requested, so that a process with short loads does
 * not make the log forget what another with longer loads still needs.
 */
export function logTags(log: InvalidationLog, tags: readonly string[], now: number): InvalidationLog {
  const { retentionMs } = log;
  const at = Math.max(Math.floor(now), log.at + 1);
  const logged = Object.entries(log.tags);
  const recent = logged.filter(([, loggedAt]) => loggedAt >= at - retentionMs);
  if (recent.length + tags.length > MAX_TAGS) return { ...log, at, forgottenAt: at, tags: {} };
  const dropped = logged.filter(([, loggedAt]) => loggedAt < at - retentionMs).map(([, loggedAt]) => loggedAt);
  return {
    logId: log.logId,
    at,
    forgottenAt: Math.max(log.forgottenAt, ...dropped),
    retentionMs,
    tags: Object.fromEntries([...recent, ...tags.map((tag) => [digestPrefix(tag), at] as const)]),
  };
}

/** Returns the end of the log as text. */
export const endOf = ({ logId, at }: InvalidationLog): string => `${logId} ${at}`;

/**
 * Returns whether none of `tags` was invalidated since the log had this end. False also if the log no
 * longer reaches back that far.
 */
export function areUnchanged(log: InvalidationLog, end: string, tags: readonly string[]): boolean {
  const [logId, at] = end.split(" ");
  const endAt = Number(at);
  return (
    log.logId === logId && log.forgottenAt <= endAt && tags.every((tag) => (log.tags[digestPrefix(tag)] ?? 0) <= endAt)
  );
}

const digestPrefix = (tag: string): string => hash("sha256", tag, "base64url").slice(0, 12);
