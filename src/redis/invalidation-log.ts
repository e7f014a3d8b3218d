import { randomBytes } from "node:crypto";
import { throwIfAnyFailed } from "../store/answers.js";
import type { LogPosition } from "../store/store.js";
import { send, sendScripts } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import type { ReplicaWaitWriter } from "./replica-wait-writer.js";
import { changeTags } from "./scripts/change-tags.js";
import { checkLog } from "./scripts/check-log.js";
import { logTags } from "./scripts/log-tags.js";

/** The maximum number of tags that are invalidated in one pipeline. */
const MAX_TAGS_PER_PIPELINE = 50;

/** The log of recent tag invalidations, stored under one key. */
export class InvalidationLog {
  key = "";
  readonly #client: RedisClient;
  readonly #writer: ReplicaWaitWriter;

  constructor(client: RedisClient, writer: ReplicaWaitWriter) {
    this.#client = client;
    this.#writer = writer;
  }

  /**
   * Appends tags and returns the end of the log. Creates the log if there is none; without tags it
   * appends nothing.
   */
  async append(logRetentionMs: number, tags: readonly string[]): Promise<LogPosition> {
    const call = { script: logTags, args: logTags.argumentsFor([this.key], this.#appendArgs(logRetentionMs), tags) };
    const { client, trailing } = this.#writer;
    const [reply] = await (tags.length === 0
      ? sendScripts(this.#client, [call])
      : sendScripts(client, [call], trailing));
    throwIfAnyFailed([reply]);
    const [logId, at] = reply as [Buffer, Buffer];
    return { logId: logId.toString("latin1"), at: Number(at.toString()) };
  }

  /**
   * Appends tags and then changes their versions, in one pipeline. Possible only without a Cluster
   * and if the server has both scripts cached. Returns whether both succeeded; if not, either may
   * have been done.
   */
  async invalidateInOnePipeline(tags: readonly string[], logRetentionMs: number): Promise<boolean> {
    if (isCluster(this.#client) || tags.length > MAX_TAGS_PER_PIPELINE) return false;
    const { client, trailing } = this.#writer;
    const replies = await send(client, [
      {
        name: "EVALSHA",
        args: [logTags.sha, ...logTags.argumentsFor([this.key], this.#appendArgs(logRetentionMs), tags)],
      },
      { name: "EVALSHA", args: [changeTags.sha, ...changeTags.argumentsFor(tags, { callerId: randomBytes(8) })] },
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

  #appendArgs(logRetentionMs: number): { proposedLogId: Buffer; logRetentionMs: number } {
    return { proposedLogId: randomBytes(8), logRetentionMs };
  }
}
