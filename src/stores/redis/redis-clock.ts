import { randomBytes } from "node:crypto";
import { HASH_TAGS } from "../../core/keys/hash-tags.js";
import { throwIfAnyFailed } from "../../core/store/answers.js";
import { type CopiedClock, HEAD_BYTES, isHeadAfter, MAX_RECORD_BYTES, readHead } from "../../core/store/clock-log.js";
import type { ClientPort, Command } from "./client-port.js";
import { MAX_LOG_BYTES } from "./define-script.js";
import { nodeOf, runScript, send, sendScripts } from "./pipeline.js";
import { appendClock } from "./scripts/append-clock.js";
import { raiseClock } from "./scripts/raise-clock.js";

/**
 * The invalidation clock in Redis: its head and its log. On a Cluster, both are on one master, and
 * copies of the head on all of them, which reads of any node include. A copy is raised before an
 * invalidation is confirmed.
 */
export class RedisClock implements CopiedClock {
  /** Of the head on a server that is no Cluster, once the store has been opened for a cache. */
  key: string | undefined = undefined;
  logKey = "";
  #head = "";
  #channel = "";
  #copies: readonly string[] = [];

  constructor(private readonly port: ClientPort) {}

  /** All keys begin with `name`, on which each new head is published. */
  open(name: string): void {
    this.#channel = name;
    const isOne = this.port.cluster === undefined;
    const [home = ""] = HASH_TAGS;
    this.#head = isOne ? name : `${name}:head:{${home}}`;
    this.key = isOne ? name : undefined;
    this.logKey = isOne ? `${name}:log` : `${name}:log:{${home}}`;
    this.#copies = isOne ? [] : HASH_TAGS.filter((_, nth) => nth % COPIES_EACH === 0).map((tag) => `${name}:{${tag}}`);
  }

  copyOn(node: string): string | undefined {
    const { cluster } = this.port;
    return cluster && this.#copies.find((copy) => nodeOf(cluster, copy) === node);
  }

  /** Returns what the copy on one of two nodes shows, the first to reply with one. */
  async headElsewhere(): Promise<Buffer | undefined> {
    const { cluster } = this.port;
    const [first] = this.#copies;
    if (first === undefined || cluster === undefined) return undefined;
    const second = this.#copies.find((copy) => nodeOf(cluster, copy) !== nodeOf(cluster, first));
    const asked = [first, ...(second === undefined ? [] : [second])].map(async (copy) => {
      const [reply] = await send(this.port, [readHeadOf(copy)]);
      throwIfAnyFailed([reply]);
      // A node that has lost its copy does not hide that of another one.
      if (readHead(reply as Buffer) === undefined) throw new Error("expected a copy of the head, got none");
      return reply as Buffer;
    });
    return Promise.any(asked).catch(() => undefined);
  }

  async append(records: readonly Buffer[], after: number, lostEpoch = ""): Promise<Buffer> {
    const lost = Buffer.from(lostEpoch, "latin1");
    const named = { callerId: randomBytes(8), after, channel: this.#channel, lostEpoch: lost };
    const args = appendClock.argumentsFor([this.#head, this.logKey], named, records);
    const [reply] = await sendScripts(this.port, [{ script: appendClock, args }]);
    throwIfAnyFailed([reply]);
    // A client that mixes up replies must not confirm what was not done.
    if (!Buffer.isBuffer(reply) || !isHeadAfter(reply, records))
      throw new Error("append-clock: expected the head of the invalidation clock, got another reply");
    return reply;
  }

  async raise(head: Buffer): Promise<readonly Buffer[]> {
    if (this.#copies.length === 0) return [];
    const replies = await runScript(this.port, { script: raiseClock, keys: this.#copies, argsOf: () => ({ head }) });
    throwIfAnyFailed(replies);
    return replies as readonly Buffer[];
  }

  async read(from: number): Promise<Buffer | undefined> {
    const [reply] = await send(this.port, [
      { name: "GETRANGE", args: [this.logKey, from, from + MAX_LOG_BYTES + MAX_RECORD_BYTES] },
    ]);
    throwIfAnyFailed([reply]);
    return Buffer.isBuffer(reply) && reply.length > 0 ? reply : undefined;
  }
}

/** Every fourth hash tag has a copy of the head: enough for 16 masters, and few to raise. */
const COPIES_EACH = 4;

export const readHeadOf = (copy: string): Command => ({ name: "GETRANGE", args: [copy, 0, HEAD_BYTES - 1] });
