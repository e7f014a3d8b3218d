import { randomBytes } from "node:crypto";
import { HASH_TAGS } from "../keys/hash-tags.js";
import { throwIfAllFailed, throwIfAnyFailed } from "../store/answers.js";
import { groupBy } from "../store/group-by.js";
import type { LogPosition } from "../store/store.js";
import { hashTagIn } from "./key-slot.js";
import { type Command, groupByNode, type ScriptCall, send, sendScripts } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import { checkLog } from "./scripts/check-log.js";
import { openLog } from "./scripts/open-log.js";

/**
 * The logs of recent tag invalidations: one, or on a Cluster one for each of `HASH_TAGS`. A tag's log
 * has the hash slot of the tag, so both are always on the same node, also while slots move, and a
 * lost node takes only the logs of its own tags with it.
 */
export class InvalidationLogs {
  /** The name of the log, or the beginning of the names of the logs. */
  name = "";
  readonly #client: RedisClient;
  /** When each log was last asked to remember invalidations for long enough, and for how long. */
  readonly #opened = new Map<string, { readonly at: number; readonly retentionMs: number }>();
  readonly #now: () => number;

  constructor(client: RedisClient, now: () => number) {
    this.#client = client;
    this.#now = now;
  }

  /** The names of all logs. */
  names(): readonly string[] {
    return isCluster(this.#client) ? HASH_TAGS.map((hashTag) => this.#nameFor(hashTag)) : [this.name];
  }

  /** The name of the log of `tag`. */
  of(tag: string): string {
    return isCluster(this.#client) ? this.#nameFor(hashTagIn(tag)) : this.name;
  }

  /**
   * Returns the ends of `logs`; one whose node did not reply is missing. Creates logs that are not
   * there. A log whose retention was set recently is only read.
   */
  async position(logs: readonly string[], logRetentionMs: number): Promise<LogPosition> {
    const position: Record<string, string> = {};
    const now = this.#now();
    const isOpen = (log: string): boolean => {
      const opened = this.#opened.get(log);
      return opened !== undefined && opened.retentionMs >= logRetentionMs && now - opened.at < logRetentionMs;
    };
    const known = logs.filter(isOpen);
    const replies = await this.#sendToEach(known, (log) => ({
      name: "ZRANGE",
      args: [log, -1, -1, "WITHSCORES"],
    }));
    for (const [log, reply] of replies) {
      // With `replyMapping: "resp3"`, a pair of the member and a number.
      const [record, at] = Array.isArray(reply) ? reply.flat() : [];
      if (Buffer.isBuffer(record) && record[0] === 0xff && at !== undefined) position[log] = writeEnd(record, at);
      // The log was lost, or holds something else. A node that failed is not asked again.
      else if (!(reply instanceof Error)) this.#opened.delete(log);
    }
    const unopened = logs.filter((log) => !isOpen(log));
    const opened = await this.#sendToEach(unopened, (log) => ({
      script: openLog,
      args: openLog.argumentsFor([log], { callerId: randomBytes(8), logRetentionMs }),
    }));
    for (const [log, reply] of opened) {
      if (!Array.isArray(reply)) continue;
      const [record, at] = reply as [Buffer, unknown];
      position[log] = writeEnd(record, at);
      this.#opened.set(log, { at: now, retentionMs: logRetentionMs });
    }
    throwIfAllFailed([...replies, ...opened].map(([, reply]) => reply));
    return position;
  }

  async areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const tagsOf = groupBy(tags, (tag) => this.of(tag));
    const ends = new Map<string, LogEnd>();
    for (const log of tagsOf.keys()) {
      const end = readEnd(position[log]);
      if (end === undefined) return false;
      ends.set(log, end);
    }
    const replies = await this.#sendToEach([...ends.keys()], (log) => ({
      script: checkLog,
      args: checkLog.argumentsFor(
        [log],
        { ...(ends.get(log) as LogEnd) },
        tagsOf.get(log)?.map((index) => tags[index] as string),
      ),
    }));
    throwIfAnyFailed(replies.map(([, reply]) => reply));
    return replies.every(([log, reply]) => Buffer.isBuffer(reply) && ends.get(log)?.record.equals(reply) === true);
  }

  #nameFor(hashTag: string): string {
    return `${this.name}:{${hashTag}}`;
  }

  /** Sends one command or script call for each log, in one pipeline per node. */
  async #sendToEach(
    logs: readonly string[],
    callFor: (log: string) => Command | ScriptCall,
  ): Promise<readonly (readonly [string, unknown])[]> {
    const parts = await Promise.all(
      groupByNode(this.#client, logs).map(async ({ calls }) => {
        const ownLogs = calls.flat().map((index) => logs[index] as string);
        const own = ownLogs.map(callFor);
        const replies = own.every((call): call is ScriptCall => "script" in call)
          ? await sendScripts(this.#client, own)
          : await send(this.#client, own as Command[]);
        return ownLogs.map((log, index) => [log, replies[index]] as const);
      }),
    );
    return parts.flat();
  }
}

interface LogEnd {
  readonly record: Buffer;
  readonly at: string;
}

const writeEnd = (record: Buffer, at: unknown): string => `${record.toString("base64")} ${at}`;

function readEnd(end: string | undefined): LogEnd | undefined {
  const [record, at] = end?.split(" ") ?? [];
  return record === undefined || at === undefined ? undefined : { record: Buffer.from(record, "base64"), at };
}
