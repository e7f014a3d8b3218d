import { randomBytes } from "node:crypto";
import { HASH_TAGS } from "../keys/hash-tags.js";
import { throwIfAnyFailed } from "../store/answers.js";
import { isControlVersion, VERSION_BYTES } from "../store/control-version.js";
import type { ControlReading, VersionedControl } from "../store/store.js";
import { checkReply } from "./check-reply.js";
import { type Command, groupByNode, nodeOf, send, sendScripts } from "./pipeline.js";
import { isCluster, type RedisClient } from "./redis-client.js";
import type { ReplicaWaitWriter } from "./replica-wait-writer.js";
import { raiseControl } from "./scripts/raise-control.js";
import { replaceControl } from "./scripts/replace-control.js";
import { READ_TIME, readTime } from "./server-times.js";

/**
 * The copies of the control record: one on a single server, on a Cluster one for each of `HASH_TAGS`,
 * so that each of up to 64 masters very likely has one.
 *
 * On a single server the copy has two keys, written by one script: `<copy>` holds the version, so that
 * one MGET reads it with the entries, and `<copy>:record` the version followed by the content. On a
 * Cluster each copy has one key, `<copy>`, which holds the version followed by the content: while a slot
 * moves, no command may create two keys in it.
 */
export class ControlCopies {
  readonly #client: RedisClient;
  readonly #writer: ReplicaWaitWriter;
  #copies: readonly string[] = [];

  constructor(client: RedisClient, writer: ReplicaWaitWriter) {
    this.#client = client;
    this.#writer = writer;
  }

  /** The names of the copies, which are the keys of their versions. */
  get names(): readonly string[] {
    return this.#copies;
  }

  /** Sets the name with which all copies begin. */
  open(name: string): void {
    this.#copies = isCluster(this.#client) ? HASH_TAGS.map((tag) => `${name}:{${tag}}`) : [name];
  }

  /**
   * Returns a copy on `node`. Undefined if the node has none, or if the store has not been opened
   * for a cache.
   */
  on(node: string): string | undefined {
    const client = this.#client;
    if (!isCluster(client)) return this.#copies[0];
    return this.#copies.find((copy) => nodeOf(client, copy) === node);
  }

  /**
   * Returns the version that a copy on any node shows: of the first of two nodes to reply, since one
   * of them may not. Undefined if neither does.
   */
  async versionElsewhere(): Promise<string | undefined> {
    const client = this.#client;
    const nodeOfCopy = (copy: string): string => (isCluster(client) ? nodeOf(client, copy) : "");
    const [first] = this.#copies;
    if (first === undefined) return undefined;
    const second = this.#copies.find((copy) => nodeOfCopy(copy) !== nodeOfCopy(first));
    const asked = [first, ...(second === undefined ? [] : [second])].map(async (copy) => {
      const [time, reply] = await send(client, [READ_TIME, readVersionOf(copy)]);
      throwIfAnyFailed([time, reply]);
      return readControlVersion(reply, readTime(time));
    });
    return Promise.any(asked).catch(() => undefined);
  }

  async read(copies: readonly string[]): Promise<ControlReading[]> {
    const readings = new Array<ControlReading>(copies.length);
    await Promise.all(
      groupByNode(this.#client, copies).map(async ({ calls }) => {
        const indexes = calls.flat();
        const reads = indexes.map((index): Command => ({ name: "MGET", args: this.#keysOf(copies[index] as string) }));
        const [time, ...replies] = await send(this.#client, [READ_TIME, ...reads]);
        await Promise.all(
          indexes.map(async (index, nth) => {
            readings[index] = await this.#repaired(copies[index] as string, replies[nth], time);
          }),
        );
      }),
    );
    return readings;
  }

  /** Reads the reply to MGET of a copy. Writes the version again if its key has been lost alone. */
  async #repaired(copy: string, reply: unknown, time: unknown): Promise<ControlReading> {
    for (const one of [reply, time]) if (one instanceof Error) return { kind: "failed", error: one };
    const now = readTime(time);
    const [shown, bytes] = reply as readonly [Buffer | null, Buffer | null];
    const version = readControlVersion(bytes?.subarray(0, VERSION_BYTES), now);
    if (version === undefined || bytes === null) return { kind: "read", record: undefined };
    const record = { version, content: bytes.subarray(VERSION_BYTES) };
    if (readControlVersion(shown?.subarray(0, VERSION_BYTES), now) === version) return { kind: "read", record };
    return this.raise([copy], record).then(
      (): ControlReading => ({ kind: "read", record }),
      (error: unknown): ControlReading => ({ kind: "failed", error }),
    );
  }

  async replace(expected: string | undefined, content: Uint8Array): Promise<string | undefined> {
    const callerId = randomBytes(8);
    const args = { expected: Buffer.from(expected ?? "", "latin1"), callerId, content: Buffer.from(content) };
    const call = {
      script: replaceControl,
      args: replaceControl.argumentsFor(this.#keysOf(this.#copies[0] as string), args),
    };
    const { client, trailing } = this.#writer;
    const [reply] = await sendScripts(client, [call], trailing);
    throwIfAnyFailed([reply]);
    if (Buffer.isBuffer(reply) && reply.length === 0) return undefined;
    const version = readControlVersion(reply);
    // Its second half is the id of this call.
    throwIfAnyFailed([checkReply(Buffer.from(version?.slice(-callerId.length) ?? "", "latin1"), callerId)]);
    return version;
  }

  async raise(copies: readonly string[], { version, content }: VersionedControl): Promise<void> {
    const args = { version: Buffer.from(version, "latin1"), content: Buffer.from(content) };
    const { client, trailing } = this.#writer;
    const results = await Promise.all(
      groupByNode(client, copies).map(({ calls }) => {
        const scriptCalls = calls.map((indexes) => {
          const keys = indexes.flatMap((index) => this.#keysOf(copies[index] as string));
          return { script: raiseControl, args: raiseControl.argumentsFor(keys, args) };
        });
        return sendScripts(client, scriptCalls as never, trailing);
      }),
    );
    throwIfAnyFailed(results.flat().map((reply) => checkReply(reply, args.version)));
  }

  /** The key of the version, and that of the version and content; on a Cluster they are the same. */
  #keysOf(copy: string): readonly [string, string] {
    return [copy, isCluster(this.#client) ? copy : `${copy}:record`];
  }
}

/** The command that reads the version of a copy on a Cluster. */
export const readVersionOf = (copy: string): Command => ({ name: "GETRANGE", args: [copy, 0, VERSION_BYTES - 1] });

/** Reads the bytes at the key of a copy's version at `now`, the node's time. Anything else counts as no version. */
export function readControlVersion(bytes: unknown, now?: number): string | undefined {
  const version = Buffer.isBuffer(bytes) ? bytes.toString("latin1") : "";
  return isControlVersion(version, now) ? version : undefined;
}
