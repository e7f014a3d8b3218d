import { LRUCache } from "lru-cache";
import { asJob, type Cancel, type Clock, systemClock } from "../../core/base/clock.js";
import { CachedError, describeSetting } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { areSameBytes } from "../../core/store/bytes.js";
import { appendToClock, readHead, type StoredClock } from "../../core/store/clock-log.js";
import { type Entry, TOO_LARGE_MARK } from "../../core/store/entry.js";
import { type History, type HistoryLimits, MemoryHistory } from "../../core/store/history.js";
import { newTokens, TOKEN_BYTES } from "../../core/store/lease-token.js";
import type {
  AcquireRequest,
  ClockListener,
  ClockOrigin,
  Grant,
  Hold,
  LeaseTimes,
  Reading,
  Release,
  Store,
  StoreNames,
  StoreOutcome,
  StoreRead,
  StoreReport,
  StoreRequest,
  Wake,
} from "../../core/store/store.js";
import { type StoredEntry, transitions } from "../../core/store/transitions.js";
import { MemoryReports } from "./memory-reports.js";

/** The options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Maximum size of all entries in bytes, keys and values together. The least recently used entries
   * are dropped first, and a value that is larger is not stored. An integer of at least 1024. Default: 64 MiB.
   */
  readonly maxBytes?: number;
  /** The clock of the store. Default: the monotonic clock of the process. */
  readonly clock?: Clock;
}

/** Estimated memory of one entry besides its key and body. */
const OVERHEAD_BYTES = 300;
/** The size of the log of the clock beyond which it loses its older half. */
const MAX_LOG_BYTES = 1024 * 1024;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;
/** How long a value that is larger than the store is loaded without a lease. */
const TOO_LARGE_MS = 1_000;

/**
 * Creates a store in the memory of this process, bounded in bytes: for servers with one process,
 * for development and for tests. It applies `transitions`, the state table that the Redis scripts
 * implement as well. Throws `CACHED_OPTION_INVALID` if `maxBytes` is invalid.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkOptionNames(options, "memoryStore", ["maxBytes", "clock"]);
  const { maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
  if (!Number.isInteger(maxBytes) || maxBytes < 1024)
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `memoryStore: \`maxBytes\`: expected an integer of at least 1024, got ${describeSetting(maxBytes)}; pass a number of bytes`,
    );
  return new MemoryStore(maxBytes, clock);
}

class MemoryStore implements Store {
  readonly name = "memory";
  readonly isShared = false;
  readonly reports: MemoryReports;
  readonly #entries: LRUCache<string, StoredEntry>;
  readonly #clock: Clock;
  #invalidations: StoredClock | undefined;
  readonly #history: MemoryHistory;
  readonly #wakes = new Set<Wake>();
  readonly #clockListeners = new Set<ClockListener>();
  #settings: Uint8Array | undefined;
  #clockName = "";

  constructor(maxBytes: number, clock: Clock) {
    this.#clock = clock;
    this.reports = new MemoryReports(clock);
    this.#history = new MemoryHistory(clock.now());
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: sizeOf,
    });
  }

  read(keys: readonly string[]): Promise<StoreRead> {
    const now = this.#clock.now();
    const readings = keys.map((key): Reading => ({ kind: "read", entry: this.#live(key, now), now }));
    return Promise.resolve({ readings, clock: this.#invalidations?.head });
  }

  readSettings(): Promise<Uint8Array | undefined> {
    return Promise.resolve(this.#settings);
  }

  replaceSettings(expected: Uint8Array | undefined, content: Uint8Array): Promise<boolean> {
    const isExpected = areSameBytes(this.#settings, expected);
    if (isExpected) this.#settings = content;
    return Promise.resolve(isExpected || areSameBytes(this.#settings, content));
  }

  appendClock(records: readonly Buffer[]): Promise<Buffer> {
    const micros = Math.floor(this.#clock.now() * 1000);
    const before = this.#invalidations;
    this.#invalidations = appendToClock(before, records, micros, MAX_LOG_BYTES);
    const { head } = this.#invalidations;
    if (head !== before?.head)
      asJob(() => {
        for (const listener of this.#clockListeners) listener(head);
      });
    return Promise.resolve(head);
  }

  readClock(from: number): Promise<Buffer | undefined> {
    return Promise.resolve(this.#invalidations?.log.subarray(from));
  }

  acquire(
    requests: readonly AcquireRequest[],
    times: LeaseTimes,
    { epoch, position }: ClockOrigin,
    holder?: string,
  ): Promise<Grant[]> {
    const head = readHead(this.#invalidations?.head);
    if (head?.epoch !== epoch) return Promise.resolve(requests.map(() => ({ kind: "expired" })));
    const origin = { epoch, position: Math.min(position, head.position) };
    const now = this.#clock.now();
    const tokens = newTokens(requests.length, holder).toString("latin1");
    return Promise.resolve(
      requests.map((request, index) => {
        const token = tokens.slice(TOKEN_BYTES * index, TOKEN_BYTES * (index + 1));
        const { stored, grant } = transitions.acquire(this.#live(request.key, now), request, token, times, origin, now);
        this.#put(request.key, stored);
        return grant;
      }),
    );
  }

  storeValues(requests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      requests.map((request) => {
        const before = this.#live(request.key, now);
        const { stored, outcome } = transitions.storeValue(before, request, now);
        if (outcome === "refused" || before === undefined) return outcome;
        if (stored !== undefined && sizeOf(stored, request.key) > this.#entries.maxSize) {
          // It would be dropped at once. The mark lets each caller load at once, without a lease.
          const { key } = request;
          const holdMs = TOO_LARGE_MS;
          const tooLarge: Release = { key, token: before.token, outcome: "uncacheable", holdMs, body: TOO_LARGE_MARK };
          this.#change(key, before, transitions.release(before, tooLarge, now).stored);
          return "unavailable";
        }
        this.#change(request.key, before, stored, stored);
        return outcome;
      }),
    );
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      holds.map((hold) => {
        const renewed = transitions.renew(this.#live(hold.key, now), hold, times, now);
        if (renewed !== undefined) this.#put(hold.key, renewed);
        return renewed !== undefined;
      }),
    );
  }

  release(releases: readonly Release[]): Promise<boolean[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      releases.map((release) => {
        const before = this.#live(release.key, now);
        const { isHeld, stored } = transitions.release(before, release, now);
        const failure = stored?.state === "failed" ? stored : undefined;
        if (isHeld) this.#change(release.key, before, stored, failure);
        return isHeld;
      }),
    );
  }

  remove(keys: readonly string[]): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) this.#change(key, this.#live(key, now), undefined);
    return Promise.resolve();
  }

  softInvalidate(keys: readonly string[]): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before !== undefined) this.#change(key, before, transitions.softInvalidate(before));
    }
    return Promise.resolve();
  }

  inspect(): Promise<StoreReport> {
    const { size: entries, calculatedSize: usedBytes, maxSize: maxBytes } = this.#entries;
    return Promise.resolve({ entries, usedBytes, maxBytes, evictionPolicy: "lru" });
  }

  appendHistory(content: Uint8Array, limits: HistoryLimits): Promise<void> {
    this.#history.append(content, limits, this.#clock.now());
    return Promise.resolve();
  }

  readHistory(): Promise<History> {
    return Promise.resolve(this.#history.read(this.#clock.now()));
  }

  open({ clock: clockName }: StoreNames, wake: Wake): Cancel {
    if (this.#clockName !== "" && this.#clockName !== clockName)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store`: expected a store that no cache with another `prefix` uses, got one in use; create a memoryStore for each prefix",
      );
    this.#clockName = clockName;
    this.#wakes.add(wake);
    return () => void this.#wakes.delete(wake);
  }

  watchClock(listener: ClockListener): Cancel {
    this.#clockListeners.add(listener);
    return () => void this.#clockListeners.delete(listener);
  }

  /** Returns the entry at `key`. Drops it first if its time is over. */
  #live(key: string, now: number): StoredEntry | undefined {
    const entry = this.#entries.get(key);
    if (entry === undefined || now < entry.dropAt) return entry;
    this.#entries.delete(key);
    return undefined;
  }

  #put(key: string, entry: StoredEntry | undefined): void {
    if (entry === undefined) this.#entries.delete(key);
    else if (entry !== this.#entries.peek(key)) this.#entries.set(key, entry);
  }

  /**
   * Replaces the entry `before` and wakes its waiters. `result` is the new entry if the load of the
   * lease chain that ends has produced it.
   */
  #change(
    key: string,
    before: StoredEntry | undefined,
    after: StoredEntry | undefined,
    result: Entry | undefined = undefined,
  ): void {
    this.#put(key, after);
    if (before?.hasWaiters !== true) return;
    const { gen } = before;
    // Deferred, as if sent over a network: waiters must not run inside another caller's
    // operation.
    asJob(() => {
      for (const wake of this.#wakes) wake(key, result, gen);
    });
  }
}

const sizeOf = ({ body }: StoredEntry, key: string): number => OVERHEAD_BYTES + key.length + body.byteLength;
