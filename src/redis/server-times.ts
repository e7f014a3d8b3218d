import type { Clock } from "../clock.js";
import { learnOffset, type ServerOffset } from "../store/server-offset.js";

/** For so long a server's time is reckoned from its last answer, so that a busy process asks for it ten times a second and not with every read. */
const HOLDS_MS = 100;

/** What time it is on each node, as far as its answers have told. */
export class ServerTimes {
  readonly #clock: Clock;
  /** The greatest offset seen, what a leaseRequest's `notAfter` is reckoned with. Too great an offset costs nothing but a leaseRequest that is granted in vain. */
  readonly #offsets = new Map<string, ServerOffset>();
  readonly #heard = new Map<string, { readonly serverNow: number; readonly at: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The node's time, if it was heard a moment ago. */
  now(node: string): number | undefined {
    const heard = this.#heard.get(node);
    const passedMs = heard === undefined ? HOLDS_MS : this.#clock.now() - heard.at;
    return heard === undefined || passedMs >= HOLDS_MS ? undefined : heard.serverNow + passedMs;
  }

  /** Takes in an answer of TIME, and says what it says; 0 where it is none. */
  hear(node: string, reply: unknown): number {
    if (reply instanceof Error) return 0;
    const [seconds, micros] = reply as [Buffer, Buffer];
    const serverNow = Number(seconds.toString()) * 1000 + Math.floor(Number(micros.toString()) / 1000);
    const at = this.#clock.now();
    this.#heard.set(node, { serverNow, at });
    this.#offsets.set(node, learnOffset(this.#offsets.get(node), serverNow, at));
    return serverNow;
  }

  /** The latest instant on the node's clock at which an answer is still waited for; 0 where its time is not known. */
  notAfter(node: string, patienceMs: number): number {
    const offset = this.#offsets.get(node);
    return offset === undefined ? 0 : Math.ceil(this.#clock.now() + offset.ms + patienceMs);
  }
}
