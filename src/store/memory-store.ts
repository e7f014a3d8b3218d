import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { type Cancel, type Clock, systemClock } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import type { Entry } from "./entry.js";
import {
  type AcquireRequest,
  type Grant,
  type Hold,
  isWriteInProgress,
  type LeaseTimes,
  type LogPosition,
  type Reading,
  type Release,
  type Store,
  type StoreNames,
  type StoreOutcome,
  type StoreRequest,
  type TagVersion,
  type Wake,
} from "./store.js";
import { type StoredEntry, transitions } from "./transitions.js";

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
  readonly #storedEntries: LRUCache<string, StoredEntry>;
  readonly #tagVersions: LRUCache<string, string>;
  readonly #clock: Clock;
  readonly #recent = new Map<string, number>();
  readonly #logId = randomBytes(8).toString("latin1");
  #recentAt = 0;
  readonly #listeners = new Set<Wake>();

  constructor(maxBytes: number, clock: Clock) {
    this.#clock = clock;
    this.#storedEntries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: (stored, key) => OVERHEAD_BYTES + key.length + stored.body.byteLength,
    });
    // A version that goes makes the entries under its tag misses: the bound costs loads, never truth.
    this.#tagVersions = new LRUCache({ max: Math.ceil(maxBytes / OVERHEAD_BYTES) });
  }

  read(keys: readonly string[], tags: readonly string[]): Promise<{ readings: Reading[]; tagVersions: TagVersion[] }> {
    const now = this.#clock.now();
    const readings = keys.map((key): Reading => ({ kind: "read", entry: this.#live(key, now), now }));
    return Promise.resolve({ readings, tagVersions: tags.map((tag) => this.#version(tag, now)) });
  }

  ensureTags(tags: readonly string[]): Promise<string[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      tags.map((tag) => {
        const version = this.#version(tag, now) ?? randomId();
        if (!isWriteInProgress(version)) this.#tagVersions.set(tag, version);
        return version;
      }),
    );
  }

  acquire(requests: readonly AcquireRequest[], times: LeaseTimes): Promise<Grant[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      requests.map((request) => {
        const { stored, grant } = transitions.acquire(this.#live(request.key, now), request, randomId(), times, now);
        this.#put(request.key, stored);
        return grant;
      }),
    );
  }

  storeValues(storeRequests: readonly StoreRequest[]): Promise<StoreOutcome[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      storeRequests.map((request) => {
        const before = this.#live(request.key, now);
        const { stored, outcome } = transitions.storeValue(before, request, now);
        if (outcome !== "refused") this.#change(request.key, before, stored);
        return outcome;
      }),
    );
  }

  renew(holds: readonly Hold[], times: LeaseTimes): Promise<boolean[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      holds.map((hold) => {
        const stored = transitions.renew(this.#live(hold.key, now), hold, times, now);
        if (stored !== undefined) this.#put(hold.key, stored);
        return stored !== undefined;
      }),
    );
  }

  release(releases: readonly Release[]): Promise<boolean[]> {
    const now = this.#clock.now();
    return Promise.resolve(
      releases.map((release) => {
        const before = this.#live(release.key, now);
        const { isHeld, stored } = transitions.release(before, release, now);
        if (isHeld) this.#change(release.key, before, stored);
        return isHeld;
      }),
    );
  }

  invalidate(keys: readonly string[]): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before !== undefined && before.state !== "write-in-progress") this.#change(key, before, undefined);
    }
    return Promise.resolve();
  }

  softInvalidate(keys: readonly string[]): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before !== undefined && before.state !== "write-in-progress")
        this.#change(key, before, transitions.softInvalidate(before));
    }
    return Promise.resolve();
  }

  invalidateTags(tags: readonly string[], logRetentionMs: number): Promise<void> {
    this.#recentAt = Math.max(this.#clock.now(), this.#recentAt + 1);
    for (const [tag, at] of this.#recent) if (at < this.#recentAt - logRetentionMs) this.#recent.delete(tag);
    for (const tag of tags) {
      this.#recent.set(tag, this.#recentAt);
      if (this.#tagVersions.has(tag)) this.#tagVersions.set(tag, randomId());
    }
    return Promise.resolve();
  }

  readLogPosition(): Promise<LogPosition> {
    return Promise.resolve({ logId: this.#logId, at: this.#recentAt });
  }

  areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    return Promise.resolve(
      position.logId === this.#logId && tags.every((tag) => (this.#recent.get(tag) ?? -1) <= position.at),
    );
  }

  beginWrite(keys: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      this.#tagVersions.delete(key);
      this.#change(key, before, transitions.beginWrite(before, writer, writeGuardMs, now));
    }
    return Promise.resolve();
  }

  endWrite(keys: readonly string[], writer: string): Promise<void> {
    const now = this.#clock.now();
    for (const key of keys) {
      const before = this.#live(key, now);
      if (before?.state === "write-in-progress") this.#change(key, before, transitions.endWrite(before, writer));
    }
    return Promise.resolve();
  }

  open(_names: StoreNames, wake: Wake): Cancel {
    this.#listeners.add(wake);
    return () => void this.#listeners.delete(wake);
  }

  #version(tag: string, now: number): TagVersion {
    return this.#live(tag, now) === undefined ? this.#tagVersions.get(tag) : WRITE_IN_PROGRESS;
  }

  #live(key: string, now: number): StoredEntry | undefined {
    const stored = this.#storedEntries.get(key);
    if (stored === undefined || now < stored.dropAt) return stored;
    this.#storedEntries.delete(key);
    return undefined;
  }

  #put(key: string, stored: StoredEntry | undefined): void {
    if (stored === undefined) this.#storedEntries.delete(key);
    else if (stored !== this.#storedEntries.peek(key)) this.#storedEntries.set(key, stored);
  }

  #change(key: string, before: StoredEntry | undefined, after: StoredEntry | undefined): void {
    this.#put(key, after);
    if (before?.hasWaiters !== true) return;
    const entry: Entry | undefined = after;
    // Waiters go on in a turn of their own, as they would behind a network: no caller's operation runs inside another's.
    queueMicrotask(() => {
      for (const wake of this.#listeners) wake(key, entry);
    });
  }
}

/** What stands for a version while a write bracket is open. */
const WRITE_IN_PROGRESS = "write-in-progress";

const randomId = (): string => randomBytes(16).toString("latin1");
