import { appendToCopies, laterHead } from "../../core/store/clock-copies.js";
import { appendToClock, type ClockHead } from "../../core/store/clock-log.js";
import type { ClockOrigin } from "../../core/store/store.js";
import { headOf } from "./content.js";
import { keep, put, type Server } from "./server.js";
import type { Servers } from "./servers.js";

/**
 * The invalidation clock in memcached: one item on the first server holds its head and its log, and an item on each server a copy of the
 * head, which every read includes. The clock is written first, and an invalidation is complete when all copies show it.
 */
export class MemcachedClock {
  readonly #servers: Servers;
  #copyOn: ReadonlyMap<Server, string> = new Map();
  #copies: readonly string[] = [];
  #whole = "";

  constructor(servers: Servers) {
    this.#servers = servers;
  }

  /** Sets the name with which all its items begin. */
  open(name: string): void {
    this.#copyOn = this.#servers.pinToEach(name);
    this.#copies = [...this.#copyOn.values()];
    [this.#whole = ""] = this.#servers.pinToEach(`${name}:log`).values();
  }

  /** Returns the copy on a server. Undefined if the store has not been opened for a cache. */
  on(server: Server): string | undefined {
    return this.#copyOn.get(server);
  }

  /** Returns the copy on the server of a key. Undefined if the store has not been opened for a cache. */
  copyBeside(key: string): string | undefined {
    return this.#copyOn.get(this.#servers.serverOf(key));
  }

  /**
   * Returns under which state of the clock a lease is granted to a caller that knows `origin`, on a server whose copy shows `head`.
   * Undefined: under none, since the caller's epoch has ended. One of several copies may be behind, which says nothing of the caller.
   */
  originOfGrant(origin: ClockOrigin, head: ClockHead | undefined): ClockOrigin | undefined {
    const isSame = head?.epoch === origin.epoch;
    if (this.#servers.isOne)
      return isSame ? { ...origin, position: Math.min(origin.position, head.position) } : undefined;
    return !isSame && head !== undefined && head.position > origin.position ? undefined : origin;
  }

  append(records: readonly Buffer[]): Promise<Buffer> {
    return appendToCopies(
      {
        append: (all, after) => this.#append(all, after),
        raise: (head) => this.#raise(head),
        read: (from) => this.read(from),
      },
      records,
    );
  }

  async #append(records: readonly Buffer[], after: number): Promise<Buffer> {
    const [head] = await this.#servers.swap([this.#whole], (content, now) => {
      const before = content?.kind === "clock" ? content.clock : undefined;
      const clock = appendToClock(before, records, Math.max(Math.floor(now * 1000), after + 1), MAX_LOG_BYTES);
      return clock === before ? keep(clock.head) : put({ kind: "clock", clock }, clock.head);
    });
    return head as Buffer;
  }

  #raise(head: Buffer): Promise<readonly Buffer[]> {
    return this.#servers.swap(this.#copies, (content) => {
      const shown = headOf(content);
      return shown !== undefined && laterHead(shown, head) === shown ? keep(shown) : put({ kind: "head", head }, head);
    });
  }

  async read(from: number): Promise<Buffer | undefined> {
    const content = await this.#servers.readOne(this.#whole);
    return content?.kind === "clock" ? content.clock.log.subarray(from) : undefined;
  }
}

/** The size of a log beyond which it loses its older half: an item of 1 MiB at most holds it, and each invalidation writes all of it. */
const MAX_LOG_BYTES = 256 * 1024;
