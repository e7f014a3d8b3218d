import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { type Cancel, type Clock, systemClock } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import type { Entry } from "./entry.js";
import {
  type AcquireRequest,
  type Fill,
  type FillOutcome,
  type Grant,
  type Hold,
  isFence,
  type LeaseTimes,
  type Nonce,
  type Reading,
  type RecordMark,
  type Release,
  type Store,
  type StoreNames,
  type Wake,
} from "./store.js";
import { type Cell, transitions } from "./transitions.js";

/** What a memory store may be told. */
export interface MemoryStoreOptions {
  /** The bytes it may hold, keys and values together; the least recently used go first. Default 64 MiB. */
  readonly maxBytes?: number;
  readonly clock?: Clock;
}

/** What one entry costs besides its key and its body, roughly. */
const OVERHEAD_BYTES = 300;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

/**
 * A store in this process's memory, bounded in bytes: for one process, for development and for tests.
 * It runs the very state table that the Redis scripts run.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  const { maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
  if (!Number.isInteger(maxBytes) || maxBytes < 1024)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `memoryStore: \`maxBytes\` must be a whole number of bytes, 1024 or more, ${describeSetting(maxBytes)} came`,
    );
  return new MemoryStore(maxBytes, clock);
}

class MemoryStore implements Store {
  readonly name = "memory";
  readonly #cells: LRUCache<string, Cell>;
  readonly #nonces: LRUCache<string, string>;
  readonly #clock: Clock;
  readonly #recent = new Map<string, number>();
  readonly #life = randomBytes(8).toString("latin1");
  #recentAt = 0;
  readonly #listeners = new Set<Wake>();

  constructor(maxBytes: number, clock: Clock) {
    this.#clock = clock;
    this.#cells = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: (cell, key) => OVERHEAD_BYTES + key.length + cell.body.byteLength,
    });
    // A nonce that goes makes the entries under its tag misses: the bound costs loads, never truth.
    this.#nonces = new LRUCache({ max: Math.ceil(maxBytes / OVERHEAD_BYTES) });
  }

  read(keys: readonly string[], tags: readonly string[]): Promise<{ readings: Reading[]; nonces: Nonce[] }> {
    const now = this.#clock.now();
    const readings = keys.map((key): Reading => ({ kind: "read", entry: this.#live(key, now), now }));
    return Promise.resolve({ readings, nonces: tags.map((tag) => this.#nonce(tag, now)) });
  }

  ensureTags(tags: readonly string[]): Promise<string[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      tags.map((tag) => {
        const nonce = this.#nonce(tag, now) ?? freshNonce();
        if (!isFence(nonce)) this.#nonces.set(tag, nonce);
        return nonce;
      }),
    );
  }

  acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<Grant[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      requests.map((request) => {
        const { cell, grant } = transitions.acquire(this.#live(request.key, now), request, freshNonce(), times, now);
        this.#put(request.key, cell);
        return grant;
      }),
    );
  }

  fill(fills: readonly Fill[]): Promise<FillOutcome[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      fills.map((fill) => {
        const before = this.#live(fill.key, now);
        const { cell, outcome } = transitions.fill(before, fill, now);
        if (outcome !== "refused") this.#change(fill.key, before, cell);
        return outcome;
      }),
    );
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      holds.map((hold) => {
        const cell = transitions.renew(this.#live(hold.key, now), hold, times, now);
        if (cell !== undefined) this.#put(hold.key, cell);
        return cell !== undefined;
      }),
    );
  }

  release(releases: readonly Release[]): Promise<boolean[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      releases.map((release) => {
        const before = this.#live(release.key, now);
        const { isHeld, cell } = transitions.release(before, release, now);
        if (isHeld) this.#change(release.key, before, cell);
        return isHeld;
      }),
    );
  }

  invalidate(keys: readonly string[]): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before !== undefined && before.state !== "fenced") this.#change(key, before, undefined);
    }
    return Promise.resolve();
  }

  softInvalidate(keys: readonly string[]): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before !== undefined && before.state !== "fenced")
        this.#change(key, before, transitions.softInvalidate(before));
    }
    return Promise.resolve();
  }

  invalidateTags(tags: readonly string[], recordMs: number): Promise<void> {
    this.#recentAt = Math.max(this.#clock.now(), this.#recentAt + 1);
    for (const [tag, at] of this.#recent) if (at < this.#recentAt - recordMs) this.#recent.delete(tag);
    for (const tag of tags) {
      this.#recent.set(tag, this.#recentAt);
      if (this.#nonces.has(tag)) this.#nonces.set(tag, freshNonce());
    }
    return Promise.resolve();
  }

  markRecord(): Promise<RecordMark> {
    return Promise.resolve({ life: this.#life, at: this.#recentAt });
  }

  isUntouchedSince(mark: RecordMark, tags: readonly string[]): Promise<boolean> {
    return Promise.resolve(mark.life === this.#life && tags.every((tag) => (this.#recent.get(tag) ?? -1) <= mark.at));
  }

  openFence(keys: readonly string[], writer: string, fenceMs: number): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      this.#nonces.delete(key);
      this.#change(key, before, transitions.openFence(before, writer, fenceMs, now));
    }
    return Promise.resolve();
  }

  closeFence(keys: readonly string[], writer: string): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before?.state === "fenced") this.#change(key, before, transitions.closeFence(before, writer));
    }
    return Promise.resolve();
  }

  open(_names: StoreNames, wake: Wake): Cancel {
    this.#listeners.add(wake);
    return () => void this.#listeners.delete(wake);
  }

  #nonce(tag: string, now: number): Nonce {
    return this.#live(tag, now) === undefined ? this.#nonces.get(tag) : FENCE;
  }

  #live(key: string, now: number): Cell | undefined {
    const cell = this.#cells.get(key);
    if (cell === undefined || now < cell.dropAt) return cell;
    this.#cells.delete(key);
    return undefined;
  }

  #put(key: string, cell: Cell | undefined): void {
    if (cell === undefined) this.#cells.delete(key);
    else if (cell !== this.#cells.peek(key)) this.#cells.set(key, cell);
  }

  #change(key: string, before: Cell | undefined, after: Cell | undefined): void {
    this.#put(key, after);
    if (before?.hasWaiters !== true) return;
    const entry: Entry | undefined = after;
    // Waiters go on in a turn of their own, as they would behind a network: no caller's operation runs inside another's.
    queueMicrotask(() => {
      for (const wake of this.#listeners) wake(key, entry);
    });
  }
}

/** What stands for a nonce while a write bracket is open. */
const FENCE = "fenced";

const freshNonce = (): string => randomBytes(16).toString("latin1");
