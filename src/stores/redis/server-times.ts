import type { Clock } from "../../core/base/clock.js";
import { learnOffset, type ServerOffset } from "../../core/store/server-offset.js";
import type { Command } from "./client-port.js";

/** The time on each node, estimated from its TIME replies and the process's monotonic clock. */
export class ServerTimes {
  readonly #clock: Clock;
  /**
   * The largest offset observed when a reply was read, from which `notAfter` is computed. The
   * server's clock is at least that far ahead.
   */
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
   * Records the reply to a TIME that was sent at `sentAt`, and returns the node's time now, in
   * milliseconds; 0 if the reply is an error. The time in the reply counts from when TIME was sent:
   * a process that was busy in between, and reads the reply late, then takes the node's time for
   * later than it is, never for earlier, and serves no value beyond its age.
   */
  record(node: string, reply: unknown, sentAt: number): number {
    if (reply instanceof Error) return 0;
    const [seconds, micros] = reply as [Buffer, Buffer];
    const serverNow = Number(seconds.toString()) * 1000 + Math.floor(Number(micros.toString()) / 1000);
    const readAt = this.#clock.now();
    this.#latest.set(node, { serverNow, at: sentAt });
    this.#offsets.set(node, learnOffset(this.#offsets.get(node), serverNow, readAt));
    return Math.floor(serverNow + readAt - sentAt);
  }

  /**
   * Returns the latest time on the node at which the caller still waits for a reply; 0 if the
   * node's time is unknown.
   */
  notAfter(node: string, patienceMs: number): number {
    const offset = this.#offsets.get(node);
    return offset === undefined ? 0 : Math.ceil(this.#clock.now() + offset.ms + patienceMs);
  }
}

/**
 * How long a server's time is extrapolated from its last TIME reply. A busy process then sends TIME
 * ten times a second instead of with every read.
 */
const EXTRAPOLATE_MS = 100;

/** The command whose reply `record` reads. */
export const READ_TIME: Command = { name: "TIME", args: [] };
