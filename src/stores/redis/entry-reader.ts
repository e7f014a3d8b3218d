import type { Clock } from "../../core/base/clock.js";
import { asError, throwIfAnyFailed } from "../../core/store/answers.js";
import { laterHead } from "../../core/store/clock-log.js";
import { readEntry } from "../../core/store/entry-layout.js";
import { learnOffset, type ServerOffset } from "../../core/store/server-offset.js";
import type { Reading, Store, StoreRead } from "../../core/store/store.js";
import type { ClientPort, Command } from "./client-port.js";
import { chunksOf, send, sendByNode } from "./pipeline.js";
import { type RedisClock, readHeadOf } from "./redis-clock.js";
import { markMissingRight } from "./replies.js";

/** One round trip. MGET blocks the server for a short time only, unlike a script. */
export function readerOn(port: ClientPort, clock: Clock, times: ServerTimes, invalidations: RedisClock): Store["read"] {
  /** With TIME if the time of the node is not known; its error takes the place of all replies. */
  async function sendTimed(node: string, commands: readonly Command[]) {
    const sentAt = clock.now();
    const nowAtSend = times.now(node, sentAt);
    if (nowAtSend !== undefined) {
      const replies = await send(port, commands);
      return { replies, now: Math.floor(nowAtSend + clock.now() - sentAt) };
    }
    const [time, ...replies] = await send(port, [READ_TIME, ...commands]);
    const now = times.record(node, time, sentAt);
    return { replies: time instanceof Error ? commands.map(() => time) : replies, now };
  }

  async function readServer(keys: readonly string[]): Promise<StoreRead> {
    // It is known from when the store is opened for a cache.
    const names = invalidations.key === undefined ? keys : [...keys, invalidations.key];
    const sentAt = clock.now();
    const nowAtSend = times.now("", sentAt);
    if (nowAtSend === undefined) {
      const { replies, now } = await sendTimed("", partsOf(names).map(mgetOf));
      throwIfAnyFailed(replies);
      return serverRead((replies as Values[]).flat(), keys.length, now);
    }
    try {
      // The server replies to the first commands while this process still writes the others.
      const values =
        names.length > KEYS_PER_COMMAND
          ? (await Promise.all(partsOf(names).map((part) => port.mget(part)))).flat()
          : await port.mget(names);
      return serverRead(values as Values, keys.length, Math.floor(nowAtSend + clock.now() - sentAt));
    } catch (error) {
      throw markMissingRight(error);
    }
  }

  /** One MGET per slot, in one pipeline per node. */
  async function readCluster(keys: readonly string[]): Promise<StoreRead> {
    let head: Buffer | undefined;
    let isHeadAsked = false;
    const reading = sendByNode(port, keys, async ({ node, calls }) => {
      const commands = calls.map((indexes) => mgetOf(indexes.map((index) => keys[index] as string)));
      const copy = invalidations.copyOn(node);
      if (copy !== undefined) {
        isHeadAsked = true;
        commands.push(readHeadOf(copy));
      }
      const { replies, now } = await sendTimed(node, commands);
      const shown = replies[calls.length];
      if (Buffer.isBuffer(shown)) head = laterHead(head, shown);
      return replies.map((reply) =>
        Array.isArray(reply) ? (reply as Values).map((value) => readingOf(value, now)) : asError(reply),
      );
    });
    const elsewhere = isHeadAsked ? undefined : invalidations.headElsewhere();
    const [found, headElsewhere] = await Promise.all([reading, elsewhere]);
    const readings = found.map(
      (one): Reading => (one instanceof Error ? { kind: "failed", error: one } : (one as Reading)),
    );
    return { readings, clock: laterHead(head, headElsewhere) };
  }

  return port.cluster === undefined ? readServer : readCluster;
}

const KEYS_PER_COMMAND = 250;

/** Returns about the same number of names for each command. */
const partsOf = (names: readonly string[]): readonly (readonly string[])[] =>
  chunksOf(names, Math.ceil(names.length / Math.ceil(names.length / KEYS_PER_COMMAND)));

const mgetOf = (keys: readonly string[]): Command => ({ name: "MGET", args: keys });

type Values = readonly (Buffer | null)[];

function serverRead(values: Values, keyCount: number, now: number): StoreRead {
  const readings = new Array<Reading>(keyCount);
  for (let at = 0; at < keyCount; at++) readings[at] = readingOf(values[at] as Buffer | null, now);
  return { readings, clock: values[keyCount] ?? undefined };
}

function readingOf(value: Buffer | null, now: number): Reading {
  const entry = value === null ? undefined : readEntry(value);
  if (entry !== undefined || value === null) return { kind: "read", entry, now };
  return { kind: "read", entry: undefined, now, foreignBytes: value.length };
}

/** The time on each node, estimated from its TIME replies and the process's monotonic clock. */
export class ServerTimes {
  readonly #known = new Map<
    string,
    { readonly serverNow: number; readonly at: number; readonly offset: ServerOffset }
  >();

  constructor(private readonly clock: Clock) {}

  /** Returns the node's time at an instant of this process, if a TIME reply is recent. */
  now(node: string, at = this.clock.now()): number | undefined {
    const known = this.#known.get(node);
    if (known === undefined) return undefined;
    const elapsedMs = at - known.at;
    return elapsedMs >= EXTRAPOLATE_MS ? undefined : known.serverNow + elapsedMs;
  }

  /**
   * Records the reply to a TIME that was sent at `sentAt`, from which it counts: a process that
   * reads it late takes the node's time for later than it is, never for earlier, and serves no
   * value beyond its age. Returns the node's time now in milliseconds; 0 for an error.
   */
  record(node: string, reply: unknown, sentAt: number): number {
    if (reply instanceof Error) return 0;
    const serverNow = timeOf(reply);
    const readAt = this.clock.now();
    const offset = learnOffset(this.#known.get(node)?.offset, serverNow, readAt);
    this.#known.set(node, { serverNow, at: sentAt, offset });
    return Math.floor(serverNow + readAt - sentAt);
  }

  /** Until when, on the node, the caller waits for a reply; 0 if its time is unknown. */
  notAfter(node: string, patienceMs: number): number {
    const known = this.#known.get(node);
    return known === undefined ? 0 : Math.ceil(this.clock.now() + known.offset.ms + patienceMs);
  }
}

/** A busy process sends TIME ten times a second, not with every read. */
const EXTRAPOLATE_MS = 100;

/** Returns the milliseconds since 1970 that a server has replied to TIME. */
export function timeOf(reply: unknown): number {
  const [seconds, micros] = reply as [Buffer, Buffer];
  return Number(seconds.toString()) * 1000 + Math.floor(Number(micros.toString()) / 1000);
}

export const READ_TIME: Command = { name: "TIME", args: [] };
