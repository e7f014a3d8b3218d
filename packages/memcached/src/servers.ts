import { hash } from "node:crypto";
import {
  appendToClock,
  asError,
  type ClockHead,
  type ClockOrigin,
  type CopiedClock,
  laterHead,
  MAX_AHEAD_MICROS,
  readHead,
  throwIfAllFailed,
  throwIfAnyFailed,
} from "graphql-cached/store";
import { type Content, headOf } from "./content.js";
import { type Change, type Decide, keep, put, type Server } from "./server.js";

/** Several servers used as one. Each name belongs to exactly one of them. */
export class Servers {
  readonly #servers: ReadonlyMap<string, Server>;
  /**
   * The servers of recent names: the cache asks for them, and then the store. Each costs a hash per
   * server.
   */
  readonly #idOf = new Map<string, string>();
  readonly #pinned = new Map<string, string>();

  constructor(servers: ReadonlyMap<string, Server>) {
    this.#servers = servers;
  }

  get isOne(): boolean {
    return this.#servers.size === 1;
  }

  get ids(): readonly string[] {
    return [...this.#servers.keys()];
  }

  /** Returns a name for each server that begins with `name` and belongs to that server. */
  pinToEach(name: string): ReadonlyMap<Server, string> {
    return new Map(
      [...this.#servers].map(([id, server]) => {
        const pinned = this.isOne ? name : `${name}:${id}`;
        this.#pinned.set(pinned, id);
        return [server, pinned];
      }),
    );
  }

  /** Like `Server.change`, for names of any server. */
  change<Result>(names: readonly string[], decide: Decide<Result>): Promise<readonly (Result | Error)[]> {
    return this.forEachServer(names, (server, ownNames, indexes) =>
      server.change(ownNames, (nth, content, time) => decide(indexes[nth] as number, content, time)),
    );
  }

  /**
   * Changes names that never expire, and whose content must not come back: see `Server.change`.
   * Throws if one failed.
   */
  async swap<Result>(
    names: readonly string[],
    decide: (content: Content, now: number) => Change<Result>,
  ): Promise<readonly Result[]> {
    const results = await this.forEachServer(names, (server, ownNames) =>
      server.change(ownNames, (_, content, { now }) => decide(content, now), true),
    );
    throwIfAnyFailed(results);
    return results as readonly Result[];
  }

  async readOne(name: string): Promise<Content> {
    const { contents } = await this.serverOf(name).read([name]);
    return contents[0];
  }

  /**
   * Calls `run` for each server with its names, all in parallel. Returns the results in the order
   * of `names`, an Error for each that failed.
   */
  async forEachServer<Result>(
    names: readonly string[],
    run: (server: Server, names: readonly string[], indexes: readonly number[]) => Promise<readonly (Result | Error)[]>,
  ): Promise<readonly (Result | Error)[]> {
    const byServer = new Map<Server, number[]>();
    for (const [index, name] of names.entries()) {
      const server = this.serverOf(name);
      const indexes = byServer.get(server);
      if (indexes === undefined) byServer.set(server, [index]);
      else indexes.push(index);
    }
    const results = new Array<Result | Error>(names.length);
    await Promise.all(
      [...byServer].map(async ([server, indexes]) => {
        const ownNames = indexes.map((index) => names[index] as string);
        const ownResults = await run(server, ownNames, indexes).catch((error: unknown) =>
          ownNames.map(() => asError(error)),
        );
        for (const [nth, index] of indexes.entries()) results[index] = ownResults[nth] as Result | Error;
      }),
    );
    return results;
  }

  /**
   * By rendezvous hashing: the server with the highest weight for the name. With another server,
   * only its own names move.
   */
  idOf(name: string): string {
    const known = this.#pinned.get(name) ?? this.#idOf.get(name);
    if (known !== undefined) return known;
    const weighted = this.ids.map((id) => ({ id, weight: this.isOne ? "" : hash("sha1", `${id}\n${name}`, "hex") }));
    const { id } = weighted.reduce((best, other) => (other.weight > best.weight ? other : best));
    if (this.#idOf.size >= MAX_NAMES) this.#idOf.clear();
    this.#idOf.set(name, id);
    return id;
  }

  serverOf(name: string): Server {
    return this.#servers.get(this.idOf(name)) as Server;
  }
}

/** The number of names whose servers are remembered. Then all are forgotten. */
const MAX_NAMES = 10_000;

/**
 * The invalidation clock: one item on the first server holds its head and its log, and one on each
 * server a copy of the head, which every read includes. An invalidation is complete when all copies
 * show it.
 */
export class MemcachedClock implements CopiedClock {
  readonly #servers: Servers;
  #copyOn: ReadonlyMap<Server, string> = new Map();
  #copies: readonly string[] = [];
  /** The item with the log, which is on the first server. */
  logName = "";

  constructor(servers: Servers) {
    this.#servers = servers;
  }

  open(name: string): void {
    this.#copyOn = this.#servers.pinToEach(name);
    this.#copies = [...this.#copyOn.values()];
    [this.logName = ""] = this.#servers.pinToEach(`${name}:log`).values();
  }

  /**
   * Returns the head as a copy on one of two servers shows it, the first to reply with one. Rejects
   * if neither replies.
   */
  async shown(): Promise<Buffer | undefined> {
    const replies = [...this.#copyOn].slice(0, 2).map(async ([server, copy]) => {
      const { contents } = await server.read([copy]);
      return headOf(contents[0]);
    });
    const found = replies.map(async (reply) => (await reply) ?? Promise.reject());
    return Promise.any(found).catch(async () => {
      throwIfAllFailed(await Promise.all(replies.map((reply) => reply.catch(asError))));
      return undefined;
    });
  }

  /** Returns the copy on a server. Undefined if the store has not been opened for a cache. */
  on(server: Server): string | undefined {
    return this.#copyOn.get(server);
  }

  /**
   * Returns the copy on the server of a key. Undefined if the store has not been opened for a
   * cache.
   */
  copyBeside(key: string): string | undefined {
    return this.#copyOn.get(this.#servers.serverOf(key));
  }

  /**
   * Under which state of the clock a lease is granted, where the copy shows `head`. Undefined:
   * under none, since the caller's epoch has ended. One of several copies may be behind, which says
   * nothing of the caller.
   */
  originOfGrant(origin: ClockOrigin, head: ClockHead | undefined): ClockOrigin | undefined {
    const isSame = head?.epoch === origin.epoch;
    if (this.#servers.isOne)
      return isSame ? { ...origin, position: Math.min(origin.position, head.position) } : undefined;
    return !isSame && head !== undefined && head.position > origin.position ? undefined : origin;
  }

  async append(records: readonly Buffer[], after: number, lostEpoch?: string): Promise<Buffer> {
    const [head] = await this.#servers.swap([this.logName], (content, now) => {
      const before = content?.kind === "clock" ? content.clock : undefined;
      const micros = Math.max(Math.floor(now * 1000), after + 1);
      const clock = appendToClock(before, records, micros, MAX_LOG_BYTES, lostEpoch);
      return clock === before ? keep(clock.head) : put({ kind: "clock", clock }, clock.head);
    });
    return head as Buffer;
  }

  raise(head: Buffer): Promise<readonly Buffer[]> {
    return this.#servers.swap(this.#copies, (content, now) => {
      const shown = headOf(content);
      const isAhead = (readHead(shown)?.position ?? 0) > now * 1000 + MAX_AHEAD_MICROS;
      return shown !== undefined && !isAhead && laterHead(shown, head) === shown
        ? keep(shown)
        : put({ kind: "head", head }, head);
    });
  }

  async read(from: number): Promise<Buffer | undefined> {
    const content = await this.#servers.readOne(this.logName);
    return content?.kind === "clock" ? content.clock.log.subarray(from) : undefined;
  }
}

/**
 * The size of a log beyond which it loses its older half: an item of 1 MiB at most holds it, and
 * each invalidation writes all of it.
 */
const MAX_LOG_BYTES = 256 * 1024;
