import { randomBytes } from "node:crypto";
import { throwIfAnyFailed } from "../store/answers.js";
import type { LogPosition } from "../store/store.js";
import { send, sendScripts } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import type { ReplicaWaitWriter } from "./replica-wait-writer.js";
import { changeTags } from "./scripts/change-tags.js";
import { checkLog } from "./scripts/check-log.js";
import { logTags } from "./scripts/log-tags.js";

/** More tags go in calls of their own. */
const MAX_AT_ONCE = 50;

/** The record of recent tag invalidations, under its one key. */
export class InvalidationLog {
  key = "";
  readonly #client: RedisClient;
  readonly #writer: ReplicaWaitWriter;

  constructor(client: RedisClient, writer: ReplicaWaitWriter) {
    this.#client = client;
    this.#writer = writer;
  }

  /** Notes tags, and answers where the record ends; begins one where there is none. */
  async note(logRetentionMs: number, tags: readonly string[]): Promise<LogPosition> {
    const call = { script: logTags, args: logTags.argumentsFor([this.key], this.#noteArgs(logRetentionMs), tags) };
    const { client, trailing } = this.#writer;
    const [reply] = await (tags.length === 0
      ? sendScripts(this.#client, [call])
      : sendScripts(client, [call], trailing));
    throwIfAnyFailed([reply]);
    const [logId, at] = reply as [Buffer, Buffer];
    return { logId: logId.toString("latin1"), at: Number(at.toString()) };
  }

  /**
   * Notes tags and changes their tagVersions, in this order and in one trip, where one server has all of it and knows both scripts. Answers whether
   * it did; if not, some of it may have been done.
   */
  async invalidateAtOnce(tags: readonly string[], logRetentionMs: number): Promise<boolean> {
    if (isCluster(this.#client) || tags.length > MAX_AT_ONCE) return false;
    const { client, trailing } = this.#writer;
    const replies = await send(client, [
      {
        name: "EVALSHA",
        args: [logTags.sha, ...logTags.argumentsFor([this.key], this.#noteArgs(logRetentionMs), tags)],
      },
      { name: "EVALSHA", args: [changeTags.sha, ...changeTags.argumentsFor(tags, { versionBase: randomBytes(12) })] },
      ...trailing,
    ]);
    return replies.slice(0, 2).every((reply) => !(reply instanceof Error));
  }

  async areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const args = { logId: Buffer.from(position.logId, "latin1"), at: position.at };
    const call = { script: checkLog, args: checkLog.argumentsFor([this.key], args, tags) };
    const [reply] = await sendScripts(this.#client, [call]);
    throwIfAnyFailed([reply]);
    return reply === 1;
  }

  #noteArgs(logRetentionMs: number): { proposedLogId: Buffer; logRetentionMs: number } {
    return { proposedLogId: randomBytes(8), logRetentionMs };
  }
}
