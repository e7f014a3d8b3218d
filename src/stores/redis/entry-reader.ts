import type { Clock } from "../../core/base/clock.js";
import { laterHead } from "../../core/store/clock-log.js";
import { readEntry } from "../../core/store/entry-layout.js";
import { learnOffset, type ServerOffset } from "../../core/store/server-offset.js";
import type { Reading, StoreRead } from "../../core/store/store.js";
import type { ClientPort, Command } from "./client-port.js";
import { chunksOf, groupByNode, send } from "./pipeline.js";
import { type RedisClock, readHeadOf } from "./redis-clock.js";
import { markMissingRight } from "./replies.js";

/** Reads entries and the head of the clock in one round trip, which every hit waits for: on a single server with one command, without groups. */
export class EntryReader {
  readonly #port: ClientPort;
  readonly #clock: Clock;
  readonly #times: ServerTimes;
  readonly #invalidations: RedisClock;

  constructor(port: ClientPort, clock: Clock, times: ServerTimes, invalidations: RedisClock) {
    this.#port = port;
    this.#clock = clock;
    this.#times = times;
    this.#invalidations = invalidations;
  }

  /** MGET blocks the server for a short time only, unlike a script. */
  async read(keys: readonly string[]): Promise<StoreRead> {
    if (this.#port.cluster !== undefined) return this.#readCluster(keys);
    const clockKey = this.#invalidations.key;
    // It is known from when the store is opened for a cache.
    const names = clockKey === undefined ? keys : [...keys, clockKey];
    const sentAt = this.#clock.now();
    const nowAtSend = this.#times.now("", sentAt);
    if (nowAtSend === undefined) return this.#readServerAndTime(names, keys.length);
    let reply: unknown;
    try {
      reply = await (names.length > KEYS_PER_COMMAND ? this.#readInParts(names) : this.#port.mget(names));
    } catch (error) {
      throw markMissingRight(error);
    }
    return serverRead(reply as Values, keys.length, Math.floor(nowAtSend + this.#clock.now() - sentAt));
  }

  /** The server replies to the first commands while this process still writes the others. */
  async #readInParts(names: readonly string[]): Promise<Values> {
    const replies = await Promise.all(partsOf(names).map((part) => this.#port.mget(part)));
    return (replies as Values[]).flat();
  }

  async #readServerAndTime(names: readonly string[], keyCount: number): Promise<StoreRead> {
    const commands = partsOf(names).map((part): Command => ({ name: "MGET", args: part }));
    const { replies, now } = await this.#sendTimed("", commands);
    for (const reply of replies) if (reply instanceof Error) throw reply;
    return serverRead((replies as Values[]).flat(), keyCount, now);
  }

  /**
   * One MGET per slot, in one pipeline per node, to all nodes at once. What a node does not reply to
   * has failed; rejects if all have.
   */
  async #readCluster(keys: readonly string[]): Promise<StoreRead> {
    const readings = new Array<Reading>(keys.length);
    let clock: Buffer | undefined;
    let failure: Error | undefined;
    let failures = 0;
    const setResult = (index: number, value: Value | Error, now: number): void => {
      if (value instanceof Error) {
        failures++;
        failure = value;
        readings[index] = { kind: "failed", error: value };
      } else readings[index] = readingOf(value, now);
    };
    const nodes = groupByNode(this.#port, keys);
    const reads = nodes.map(async ({ node, calls }) => {
      const commands = calls.map(
        (indexes): Command => ({ name: "MGET", args: indexes.map((index) => keys[index] as string) }),
      );
      const clockKey = this.#invalidations.copyOn(node);
      if (clockKey !== undefined) commands.push(readHeadOf(clockKey));
      const { replies, now } = await this.#sendTimed(node, commands);
      for (const [position, indexes] of calls.entries()) {
        const reply = replies[position] as Values | Error;
        for (let at = 0; at < indexes.length; at++)
          setResult(indexes[at] as number, reply instanceof Error ? reply : (reply[at] as Value), now);
      }
      const head = clockKey === undefined ? undefined : replies.at(-1);
      if (Buffer.isBuffer(head)) clock = laterHead(clock, head);
    });
    if (nodes.every(({ node }) => this.#invalidations.copyOn(node) === undefined))
      reads.push(
        this.#invalidations.headElsewhere().then((head) => {
          clock = laterHead(clock, head);
        }),
      );
    await Promise.all(reads);
    if (failure !== undefined && failures === keys.length) throw failure;
    return { readings, clock };
  }

  /** With TIME before them if the time of the node is not known. If TIME has failed, its error is in the place of all replies. */
  async #sendTimed(
    node: string,
    commands: readonly Command[],
  ): Promise<{ readonly replies: readonly unknown[]; readonly now: number }> {
    const sentAt = this.#clock.now();
    const nowAtSend = this.#times.now(node, sentAt);
    if (nowAtSend !== undefined) {
      const replies = await send(this.#port, commands);
      return { replies, now: Math.floor(nowAtSend + this.#clock.now() - sentAt) };
    }
    const [time, ...replies] = await send(this.#port, [READ_TIME, ...commands]);
    const now = this.#times.record(node, time, sentAt);
    return { replies: time instanceof Error ? commands.map(() => time) : replies, now };
  }
}

const KEYS_PER_COMMAND = 250;

/** Returns the names to read with each command, about the same number of them. */
const partsOf = (names: readonly string[]): readonly (readonly string[])[] =>
  chunksOf(names, Math.ceil(names.length / Math.ceil(names.length / KEYS_PER_COMMAND)));

type Value = Buffer | null;
type Values = readonly Value[];

function serverRead(values: Values, keyCount: number, now: number): StoreRead {
  const readings = new Array<Reading>(keyCount);
  for (let at = 0; at < keyCount; at++) readings[at] = readingOf(values[at] as Value, now);
  return { readings, clock: values[keyCount] ?? undefined };
}

function readingOf(value: Value, now: number): Reading {
  const entry = value === null ? undefined : readEntry(value);
  if (entry !== undefined || value === null) return { kind: "read", entry, now };
  return { kind: "read", entry: undefined, now, foreignBytes: value.length };
}

/** The time on each node, estimated from its TIME replies and the process's monotonic clock. */
export class ServerTimes {
  readonly #clock: Clock;
  /** The largest offset observed, from which `notAfter` is computed: the server's clock is at least that far ahead. */
  readonly #offsets = new Map<string, ServerOffset>();
  readonly #latest = new Map<string, { readonly serverNow: number; readonly at: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Returns the node's time at `at`, an instant of this process, if its last TIME reply is recent enough, else undefined. */
  now(node: string, at = this.#clock.now()): number | undefined {
    const latest = this.#latest.get(node);
    if (latest === undefined) return undefined;
    const elapsedMs = at - latest.at;
    return elapsedMs >= EXTRAPOLATE_MS ? undefined : latest.serverNow + elapsedMs;
  }

  /**
   * Records the reply to a TIME that was sent at `sentAt`, from which it counts: a process that reads it late takes the node's time for later than it
   * is, never for earlier, and serves no value beyond its age. Returns the node's time now in milliseconds; 0 for an error.
   */
  record(node: string, reply: unknown, sentAt: number): number {
    if (reply instanceof Error) return 0;
    const serverNow = timeOf(reply);
    const readAt = this.#clock.now();
    this.#latest.set(node, { serverNow, at: sentAt });
    this.#offsets.set(node, learnOffset(this.#offsets.get(node), serverNow, readAt));
    return Math.floor(serverNow + readAt - sentAt);
  }

  /** The latest time on the node at which the caller still waits for a reply; 0 if its time is unknown. */
  notAfter(node: string, patienceMs: number): number {
    const offset = this.#offsets.get(node);
    return offset === undefined ? 0 : Math.ceil(this.#clock.now() + offset.ms + patienceMs);
  }
}

/** For how long a server's time is extrapolated: a busy process sends TIME ten times a second, not with every read. */
const EXTRAPOLATE_MS = 100;

/** Returns the milliseconds since 1970 that a server has replied to TIME. */
export function timeOf(reply: unknown): number {
  const [seconds, micros] = reply as [Buffer, Buffer];
  return Number(seconds.toString()) * 1000 + Math.floor(Number(micros.toString()) / 1000);
}

export const READ_TIME: Command = { name: "TIME", args: [] };
