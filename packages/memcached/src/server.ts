import { hash } from "node:crypto";
import { asError, type Clock, learnOffset, type Random, type ServerOffset } from "graphql-cached/store";
import { type Content, dropAtOf, type KnownContent, RESERVATION, readContent, writeContent } from "./content.js";
import { isLostRace, type MemcachedClient, readItems, readServerSeconds, type StoredItem } from "./memcached-client.js";

/**
 * One memcached server. Every change is a read, a decision, and a write that is refused if the item
 * changed in between.
 */
export class Server {
  readonly #client: MemcachedClient;
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #serverClock: ServerClock;

  constructor(client: MemcachedClient, clock: Clock, random: Random) {
    this.#client = client;
    this.#clock = clock;
    this.#random = random;
    this.#serverClock = new ServerClock(async () => readServerSeconds(await client.cmd("stats")), clock);
  }

  /** Reads the content of `names` in one round trip. */
  async read(names: readonly string[]): Promise<{ contents: readonly Content[]; now: number }> {
    const items = await this.#fetch(names);
    // A reply to `stats` that was read late makes the time look earlier than it is. Values must not
    // be served beyond their age because of that.
    const { now: earliest, slackMs } = this.#serverClock.time();
    const now = earliest + Math.max(0, slackMs - SECOND_MS);
    return { contents: items.map((item) => readContent(item?.bytes, now)), now };
  }

  /**
   * Changes `names` as `decide` says. Returns one result per name, an Error where the change failed
   * or may have failed. Never rejects.
   *
   * An `add` that is carried out again after its item has gone brings the item back. With
   * `canOnlySwap`, absent names are reserved first, for two more round trips, and everything is
   * written with `cas`, which succeeds at most once.
   */
  async change<Result>(
    names: readonly string[],
    decide: Decide<Result>,
    canOnlySwap = false,
  ): Promise<readonly (Result | Error)[]> {
    const results = new Array<Result | Error>(names.length);
    let remaining = names.map((_, index) => index);
    try {
      for (let attempt = 0; remaining.length > 0; attempt++) {
        if (attempt === MAX_ATTEMPTS)
          throw new Error(`other processes changed the key concurrently in each of ${MAX_ATTEMPTS} attempts`);
        // Jitter separates processes that have collided twice.
        if (attempt > 1) {
          const ms = this.#random() * PAUSE_MS * attempt;
          await new Promise<void>((resolve) => void this.#clock.after(ms, resolve, true));
        }
        const items = await this.#fetch(remaining.map((index) => names[index] as string));
        const time = this.#serverClock.time();
        const isDone = await Promise.all(
          remaining.map(async (index, nth) => {
            const item = items[nth];
            const { result, change } = decide(index, readContent(item?.bytes, time.now), time);
            try {
              const name = names[index] as string;
              if (change?.to !== undefined && item === undefined && canOnlySwap) {
                await this.#reserve(name, time.now);
                return false;
              }
              if (change !== undefined && !(await this.#write(name, item, change.to))) return false;
              results[index] = result;
            } catch (error) {
              results[index] = asError(error);
            }
            return true;
          }),
        );
        remaining = remaining.filter((_, nth) => isDone[nth] !== true);
      }
    } catch (error) {
      for (const index of remaining) results[index] = asError(error);
    }
    return results;
  }

  async #fetch(names: readonly string[]): Promise<readonly (StoredItem | undefined)[]> {
    const wireNames = names.map(wireName);
    const [reply] = await Promise.all([this.#client.gets([...new Set(wireNames)]), this.#serverClock.ready()]);
    const items = readItems(reply);
    return wireNames.map((name) => items.get(name));
  }

  /**
   * Writes `to` if `item` is still stored under `name`. Returns false if another write was first.
   */
  async #write(name: string, item: StoredItem | undefined, to: KnownContent | undefined): Promise<boolean> {
    const bytes = to === undefined ? Buffer.alloc(0) : writeContent(to);
    const lifetime = to === undefined ? EXPIRED : expiryOf(dropAtOf(to));
    try {
      if (item !== undefined) await this.#client.cas(wireName(name), bytes, { lifetime, casUniq: item.casUniq });
      else if (to !== undefined) await this.#client.add(wireName(name), bytes, { lifetime });
      return true;
    } catch (error) {
      if (isLostRace(error)) return false;
      throw error;
    }
  }

  async #reserve(name: string, now: number): Promise<void> {
    const lifetime = expiryOf(now + RESERVATION_MS);
    await this.#client.add(wireName(name), RESERVATION, { lifetime }).catch((error: unknown) => {
      if (!isLostRace(error)) throw error;
    });
  }
}

/**
 * A decision about one name. `change`: its content becomes `to`, or absent, and `result` is
 * returned once that is done.
 */
export interface Change<Result> {
  readonly result: Result;
  readonly change?: { readonly to: KnownContent | undefined } | undefined;
}

export const keep = <Result>(result: Result): Change<Result> => ({ result });

export const put = <Result>(to: KnownContent | undefined, result: Result): Change<Result> => ({
  result,
  change: { to },
});

/** Decides about one name, without side effects: if the write loses a race, it is called again. */
export type Decide<Result> = (index: number, content: Content, time: ServerTime) => Change<Result>;

const MAX_NAME_BYTES = 250;
/** Maximum attempts to change a name that other processes change concurrently. */
const MAX_ATTEMPTS = 16;
const PAUSE_MS = 3;
/**
 * A lifetime that the server takes for long past: a `cas` with it removes the item, if it is
 * unchanged.
 */
const EXPIRED = -1;
const RESERVATION_MS = 60_000;
/** Uncertainty about a server's time that is due to its counting in seconds. */
const SECOND_MS = 1_000;

/**
 * Returns the expiry as an instant in the server's seconds, never early, since a relative one would
 * count from when the command arrives; 0: none. The server takes what is no 32-bit integer for a
 * past instant, so items that live longer do not expire there.
 */
function expiryOf(dropAt: number): number {
  const seconds = Math.ceil(dropAt / 1000) + 1;
  return seconds > MAX_INSTANT ? 0 : seconds;
}

const MAX_INSTANT = 2 ** 31 - 1;

/** memcached accepts keys of up to 250 bytes without spaces and control characters. */
const wireName = (name: string): string =>
  name.length <= MAX_NAME_BYTES && /^[!-~]+$/.test(name) ? name : `graphql-cached:${hash("sha256", name, "base64url")}`;

/**
 * Estimates one server's time in milliseconds. The server reports whole seconds, along with
 * operations, so the offset is learned from many replies: all processes converge on the moment at
 * which its second changes, within about 50 ms of each other.
 */
export class ServerClock {
  readonly #fetchSeconds: () => Promise<number>;
  readonly #clock: Clock;
  /** The smallest that the offset can be. */
  #offset: ServerOffset | undefined;
  /**
   * The largest that it can be: when the request was sent, the server's next second had not begun.
   */
  #maxOffset: ServerOffset | undefined;
  #latest = 0;
  #requests = 0;
  #nextAt = Number.NEGATIVE_INFINITY;
  #pending: Promise<void> | undefined;

  constructor(fetchSeconds: () => Promise<number>, clock: Clock) {
    this.#fetchSeconds = fetchSeconds;
    this.#clock = clock;
  }

  /** Rejects if the time was never known and the server does not report it. */
  async ready(): Promise<void> {
    if (this.#clock.now() >= this.#nextAt) this.#pending ??= this.#learn().finally(() => (this.#pending = undefined));
    if (this.#offset === undefined) await this.#pending;
    // A request that only improves a known estimate delays nothing, and may fail without
    // consequence.
    else this.#pending?.catch(() => undefined);
  }

  time(): ServerTime {
    const leastMs = this.#offset?.ms ?? 0;
    // The learned offset decays by about a millisecond between two replies. The time must not go
    // back because of that.
    this.#latest = Math.max(this.#latest, this.#clock.now() + leastMs);
    return { now: this.#latest, slackMs: Math.max(0, (this.#maxOffset?.ms ?? leastMs) - leastMs) };
  }

  async #learn(): Promise<void> {
    const sentAt = this.#clock.now();
    const serverAt = (await this.#fetchSeconds()) * 1000;
    const now = this.#clock.now();
    const isSetBack = this.#offset !== undefined && sentAt + this.#offset.ms > serverAt + SET_BACK_MS;
    if (isSetBack) {
      this.#offset = this.#maxOffset = undefined;
      this.#latest = 0;
    }
    this.#offset = learnOffset(this.#offset, serverAt, now);
    const maxMs = serverAt + 1000 - sentAt;
    const knownMaxMs =
      this.#maxOffset === undefined ? maxMs : this.#maxOffset.ms + (now - this.#maxOffset.learnedAt) / 1000;
    this.#maxOffset = { ms: Math.min(maxMs, knownMaxMs), learnedAt: now };
    this.#requests++;
    this.#nextAt = now + (this.#requests < EARLY_REQUESTS ? EARLY_MS : LATER_MS);
  }
}

/** The first requests follow closely, until the start of the server's second is known well. */
const EARLY_REQUESTS = 20;
const EARLY_MS = 50;
const LATER_MS = 970;
/** A server this far behind the learned time has been set back, or replaced by another one. */
const SET_BACK_MS = 2_500;

/** A server's time, as far as it is known. */
export interface ServerTime {
  /** The earliest that the server's time can be, in milliseconds. */
  readonly now: number;
  /** How much later it may be. */
  readonly slackMs: number;
}
