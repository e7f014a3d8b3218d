import type { Clock } from "../clock.js";
import { largerVersion } from "../store/control-version.js";
import { readEntry } from "../store/entry-layout.js";
import type { Reading, StoreRead, TagVersion } from "../store/store.js";
import { chunksOf } from "./chunks.js";
import { type ControlCopies, readControlVersion, readVersionOf } from "./control-copies.js";
import { type Command, groupByNode, send, sendAlone } from "./pipeline.js";
import { isAutoPipelined, isCluster, type RedisClient, type RedisClusterClient } from "./redis-client.js";
import { READ_TIME, type ServerTimes } from "./server-times.js";
import { readTagVersion } from "./tag-version.js";

/**
 * Reads entries, tag versions and the version of the control record in one round trip. This is what
 * every hit waits for, so a single server gets a path of its own: one command, without a pipeline or
 * groups.
 */
export class EntryReader {
  readonly #client: RedisClient;
  /** The client, if it is one of a Cluster. */
  readonly #cluster: RedisClusterClient | undefined;
  readonly #clock: Clock;
  readonly #times: ServerTimes;
  readonly #control: ControlCopies;

  constructor(client: RedisClient, clock: Clock, times: ServerTimes, control: ControlCopies) {
    this.#client = client;
    this.#cluster = isCluster(client) ? client : undefined;
    this.#clock = clock;
    this.#times = times;
    this.#control = control;
  }

  /** See `Store.read`. */
  read(keys: readonly string[], tags: readonly string[]): Promise<StoreRead> {
    const cluster = this.#cluster;
    return cluster === undefined ? this.#readServer(keys, tags) : this.#readCluster(cluster, keys, tags);
  }

  /** MGET reads everything, in one command unless there are many keys: it blocks the server for a short time only, unlike a script. */
  #readServer(keys: readonly string[], tags: readonly string[]): Promise<StoreRead> {
    const controlKey = this.#control.on("");
    const names = controlKey === undefined ? [...keys, ...tags] : [...keys, ...tags, controlKey];
    const sentAt = this.#clock.now();
    const nowAtSend = this.#times.now("", sentAt);
    if (nowAtSend === undefined) return this.#readServerAndTime(names, keys.length, tags.length);
    const reading = names.length > KEYS_PER_COMMAND ? this.#readInParts(names) : this.#mget(names);
    return reading.then((reply) => {
      const now = Math.floor(nowAtSend + this.#clock.now() - sentAt);
      return serverRead(reply as Values, keys.length, tags.length, now);
    });
  }

  #mget(keys: readonly string[]): Promise<unknown> {
    return isAutoPipelined(this.#client)
      ? sendAlone(this.#client, { name: "MGET", args: keys })
      : this.#client.mgetBuffer(...keys);
  }

  /** The server replies to the first commands while this process still writes the others. */
  async #readInParts(names: readonly string[]): Promise<Values> {
    const replies = await Promise.all(partsOf(names).map((part) => this.#mget(part)));
    return (replies as Values[]).flat();
  }

  async #readServerAndTime(names: readonly string[], keyCount: number, tagCount: number): Promise<StoreRead> {
    const commands = partsOf(names).map((part): Command => ({ name: "MGET", args: part }));
    const { replies, now } = await this.#sendTimed("", commands);
    for (const reply of replies) if (reply instanceof Error) throw reply;
    return serverRead((replies as Values[]).flat(), keyCount, tagCount, now);
  }

  /**
   * One MGET per slot, in one pipeline per node, to all nodes at once. What a node does not reply to
   * has failed; rejects if all have.
   */
  async #readCluster(client: RedisClusterClient, keys: readonly string[], tags: readonly string[]): Promise<StoreRead> {
    const names = [...keys, ...tags];
    const readings = new Array<Reading>(keys.length);
    const tagVersions = new Array<TagVersion>(tags.length);
    let controlVersion: string | undefined;
    let failure: Error | undefined;
    let failures = 0;
    const setResult = (index: number, value: Value | Error, now: number): void => {
      if (value instanceof Error) {
        failures++;
        failure = value;
      }
      if (index >= keys.length)
        tagVersions[index - keys.length] = value instanceof Error ? undefined : tagVersionOf(value, now);
      else readings[index] = value instanceof Error ? { kind: "failed", error: value } : readingOf(value, now);
    };
    const nodes = groupByNode(client, names);
    const controlKeys = nodes.map(({ node }) => this.#control.on(node));
    const reads = nodes.map(async ({ node, calls }, nth) => {
      const controlKey = controlKeys[nth];
      const commands = calls.map(
        (indexes): Command => ({ name: "MGET", args: indexes.map((index) => names[index] as string) }),
      );
      if (controlKey !== undefined) commands.push(readVersionOf(controlKey));
      const { replies, now } = await this.#sendTimed(node, commands);
      for (const [position, indexes] of calls.entries()) {
        const reply = replies[position] as Values | Error;
        for (let at = 0; at < indexes.length; at++)
          setResult(indexes[at] as number, reply instanceof Error ? reply : (reply[at] as Value), now);
      }
      if (controlKey !== undefined)
        controlVersion = largerVersion(controlVersion, readControlVersion(replies[calls.length], now));
    });
    // If no node that is read has a copy of the control record, another one is asked as well.
    if (controlKeys.every((key) => key === undefined))
      reads.push(
        this.#control.versionElsewhere().then((version) => {
          controlVersion = version;
        }),
      );
    await Promise.all(reads);
    if (failure !== undefined && failures === names.length) throw failure;
    return { readings, tagVersions, controlVersion };
  }

  /**
   * Sends commands to a node, with TIME before them if its time is not known. Returns their replies,
   * errors in the place of all of them if TIME has failed, and the node's time.
   */
  async #sendTimed(
    node: string,
    commands: readonly Command[],
  ): Promise<{ readonly replies: readonly unknown[]; readonly now: number }> {
    const sentAt = this.#clock.now();
    const nowAtSend = this.#times.now(node, sentAt);
    if (nowAtSend !== undefined) {
      const replies = await send(this.#client, commands);
      return { replies, now: Math.floor(nowAtSend + this.#clock.now() - sentAt) };
    }
    const [time, ...replies] = await send(this.#client, [READ_TIME, ...commands]);
    const now = this.#times.record(node, time, sentAt);
    return { replies: time instanceof Error ? commands.map(() => time) : replies, now };
  }
}

/** The most keys of one MGET. */
const KEYS_PER_COMMAND = 250;

/** Returns the names to read with each command, about the same number of them. */
const partsOf = (names: readonly string[]): readonly (readonly string[])[] =>
  chunksOf(names, Math.ceil(names.length / Math.ceil(names.length / KEYS_PER_COMMAND)));

/** What MGET returns for one key. */
type Value = Buffer | null;
type Values = readonly Value[];

/** Reads the reply to the MGET of keys, then tags, and then the copy of the control record. */
function serverRead(values: Values, keyCount: number, tagCount: number, now: number): StoreRead {
  const readings = new Array<Reading>(keyCount);
  for (let at = 0; at < keyCount; at++) readings[at] = readingOf(values[at] as Value, now);
  const tagVersions = new Array<TagVersion>(tagCount);
  for (let at = 0; at < tagCount; at++) tagVersions[at] = tagVersionOf(values[keyCount + at] as Value, now);
  return { readings, tagVersions, controlVersion: readControlVersion(values[keyCount + tagCount], now) };
}

const readingOf = (value: Value, now: number): Reading => ({
  kind: "read",
  entry: value === null ? undefined : readEntry(value),
  now,
});

const tagVersionOf = (value: Value, now: number): TagVersion =>
  value === null ? undefined : readTagVersion(value, now);
