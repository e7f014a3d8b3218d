import { randomBytes } from "node:crypto";
import { throwIfAnyFailed } from "../store/answers.js";
import type { RecordMark } from "../store/store.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import type { SafeWriter } from "./safe-writer.js";
import { changeTags } from "./scripts/change-tags.js";
import { checkTags } from "./scripts/check-tags.js";
import { noteTags } from "./scripts/note-tags.js";
import { send, sendScripts } from "./trips.js";

/** More tags go in calls of their own. */
const MAX_AT_ONCE = 50;

/** The record of recent tag invalidations, under its one key. */
export class TagRecord {
  key = "";
  readonly #client: RedisClient;
  readonly #writer: SafeWriter;

  constructor(client: RedisClient, writer: SafeWriter) {
    this.#client = client;
    this.#writer = writer;
  }

  /** Notes tags, and answers where the record ends; begins one where there is none. */
  async note(recordMs: number, tags: readonly string[]): Promise<RecordMark> {
    const call = { script: noteTags, args: noteTags.argumentsFor([this.key], this.#noteArgs(recordMs), tags) };
    const { client, trailing } = this.#writer;
    const [reply] = await (tags.length === 0
      ? sendScripts(this.#client, [call])
      : sendScripts(client, [call], trailing));
    throwIfAnyFailed([reply]);
    const [life, at] = reply as [Buffer, Buffer];
    return { life: life.toString("latin1"), at: Number(at.toString()) };
  }

  /**
   * Notes tags and changes their nonces, in this order and in one trip, where one server has all of it and knows both scripts. Answers whether
   * it did; if not, some of it may have been done.
   */
  async invalidateAtOnce(tags: readonly string[], recordMs: number): Promise<boolean> {
    if (isCluster(this.#client) || tags.length > MAX_AT_ONCE) return false;
    const { client, trailing } = this.#writer;
    const replies = await send(client, [
      { name: "EVALSHA", args: [noteTags.sha, ...noteTags.argumentsFor([this.key], this.#noteArgs(recordMs), tags)] },
      { name: "EVALSHA", args: [changeTags.sha, ...changeTags.argumentsFor(tags, { nonceBase: randomBytes(12) })] },
      ...trailing,
    ]);
    return replies.slice(0, 2).every((reply) => !(reply instanceof Error));
  }

  async isUntouchedSince(mark: RecordMark, tags: readonly string[]): Promise<boolean> {
    const args = { life: Buffer.from(mark.life, "latin1"), at: mark.at };
    const call = { script: checkTags, args: checkTags.argumentsFor([this.key], args, tags) };
    const [reply] = await sendScripts(this.#client, [call]);
    throwIfAnyFailed([reply]);
    return reply === 1;
  }

  #noteArgs(recordMs: number): { proposedLife: Buffer; recordMs: number } {
    return { proposedLife: randomBytes(8), recordMs };
  }
}
