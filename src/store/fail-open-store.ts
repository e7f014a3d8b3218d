import type { Cancel, Clock } from "../clock.js";
import { CachedError, messageOf } from "../errors.js";
import type { Channel } from "../telemetry/channel.js";
import { Breaker } from "./breaker.js";
import type {
  AcquireRequest,
  Fill,
  FillOutcome,
  Grant,
  Hold,
  LeaseTimes,
  RecordMark,
  Release,
  Store,
  StoreNames,
  Wake,
} from "./store.js";

/** An invalidation is worth waiting for longer than a read: so many budgets. */
const PATIENT = 10;

/**
 * A store in front of another, which turns its troubles into misses: what is slower than the time budget, fails or would be asked while the
 * breaker is open counts as not there. Reading, acquiring, filling and releasing never reject; an operation that somebody must know to be done
 * does, with `CACHED_STORE_UNAVAILABLE`.
 */
export class FailOpenStore implements Store {
  readonly #inner: Store;
  readonly #clock: Clock;
  readonly #channel: Channel;
  readonly #budgetMs: number;
  readonly #breaker: Breaker;

  constructor(inner: Store, clock: Clock, channel: Channel, budgetMs: number) {
    this.#inner = inner;
    this.#clock = clock;
    this.#channel = channel;
    this.#budgetMs = budgetMs;
    this.#breaker = new Breaker(clock);
  }

  get name(): string {
    return this.#inner.name;
  }

  async read(...args: Parameters<Store["read"]>): ReturnType<Store["read"]> {
    const [keys, tags] = args;
    try {
      return await this.#within("read", () => this.#inner.read(keys, tags));
    } catch (error) {
      return { readings: keys.map(() => ({ kind: "failed", error })), nonces: tags.map(() => undefined) };
    }
  }

  async acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<readonly Grant[]> {
    let asked: Promise<readonly Grant[]> | undefined;
    try {
      return await this.#within("acquire", () => {
        asked = this.#inner.acquire(requests, times);
        return asked;
      });
    } catch (error) {
      if (asked !== undefined) this.#releaseLate(asked, requests);
      return requests.map(() => ({ kind: "unavailable", error }));
    }
  }

  fill(fills: readonly Fill[]): Promise<readonly FillOutcome[]> {
    return this.#within("fill", () => this.#inner.fill(fills)).catch(() => fills.map(() => "unavailable"));
  }

  release(releases: readonly Release[]): Promise<readonly boolean[]> {
    return this.#within("release", () => this.#inner.release(releases)).catch(() => releases.map(() => false));
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<readonly boolean[]> {
    return this.#within("renew", () => this.#inner.renew(holds, times));
  }

  ensureTags(tags: readonly string[], ttlMs: number): Promise<readonly string[]> {
    return this.#within("ensureTags", () => this.#inner.ensureTags(tags, ttlMs));
  }

  markRecord(recordMs: number): Promise<RecordMark> {
    return this.#within("markRecord", () => this.#inner.markRecord(recordMs));
  }

  isUntouchedSince(mark: RecordMark, tags: readonly string[]): Promise<boolean> {
    return this.#within("isUntouchedSince", () => this.#inner.isUntouchedSince(mark, tags));
  }

  invalidate(keys: readonly string[]): Promise<void> {
    return this.#within("invalidate", () => this.#inner.invalidate(keys), PATIENT);
  }

  invalidateTags(tags: readonly string[], recordMs: number): Promise<void> {
    return this.#within("invalidateTags", () => this.#inner.invalidateTags(tags, recordMs), PATIENT);
  }

  openFence(names: readonly string[], writer: string, fenceMs: number): Promise<void> {
    return this.#within("openFence", () => this.#inner.openFence(names, writer, fenceMs), PATIENT);
  }

  closeFence(names: readonly string[], writer: string): Promise<void> {
    return this.#within("closeFence", () => this.#inner.closeFence(names, writer), PATIENT);
  }

  open(names: StoreNames, wake: Wake): Cancel {
    return this.#inner.open(names, wake);
  }

  async #within<T>(operation: string, run: () => Promise<T>, budgets = 1): Promise<T> {
    if (!this.#breaker.mayTry()) throw unavailable(operation, "its breaker is open");
    try {
      const result = await inTime(this.#clock, run(), this.#budgetMs * budgets, operation);
      if (this.#breaker.succeeded()) this.#channel.publish({ name: "store.recovered" });
      return result;
    } catch (error) {
      this.#breaker.failed();
      this.#channel.publish({ name: "store.failed", operation, error });
      throw error instanceof CachedError ? error : unavailable(operation, messageOf(error), error);
    }
  }

  /** A grant that comes when nobody waits for it any more would keep others waiting: it is let go. */
  #releaseLate(late: Promise<readonly Grant[]>, requests: readonly AcquireRequest[]): void {
    const letGo = async (): Promise<void> => {
      const releases = (await late).flatMap((grant, index): Release[] => {
        const key = requests[index]?.key;
        if (grant.kind !== "granted" || key === undefined) return [];
        return [{ key, token: grant.token, outcome: "abandoned", holdMs: 0, body: new Uint8Array() }];
      });
      if (releases.length > 0) await this.#inner.release(releases);
    };
    // What is not let go runs out.
    letGo().catch(() => undefined);
  }
}

/** The budget is counted in this many parts. */
const PARTS = 4;

/**
 * Rejects once `ms` have passed in which an answer could have been heard. They are counted in parts, each a timer and a turn of the event loop:
 * a process that was too busy to listen for a while has lost one part of its patience and not all of it, so that a burst of requests is not
 * taken for an outage of the store.
 */
function inTime<T>(clock: Clock, result: Promise<T>, ms: number, operation: string): Promise<T> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => undefined;
    let isOver = false;
    const wait = (left: number): void => {
      if (isOver) return;
      if (left === 0) reject(unavailable(operation, `it did not answer within ${ms} ms`));
      else cancel = clock.after(ms / PARTS, () => clock.afterTick(() => wait(left - 1)));
    };
    wait(PARTS);
    result.then(resolve, reject).finally(() => {
      isOver = true;
      cancel();
    });
  });
}

const unavailable = (operation: string, why: string, cause?: unknown): CachedError =>
  new CachedError("CACHED_STORE_UNAVAILABLE", `the store was expected to ${operation}: ${why}`, { cause });
