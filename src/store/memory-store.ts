import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { asJob, type Cancel, type Clock, systemClock } from "../clock.js";
import { CachedError, describeSetting } from "../errors.js";
import { checkOptionNames } from "../option-names.js";
import { isControlVersion, nextControlVersion } from "./control-version.js";
import { type Entry, TOO_LARGE_MARK } from "./entry.js";
import { type History, type HistoryLimits, MemoryHistory } from "./history.js";
import { newTokens, TOKEN_BYTES } from "./lease-token.js";
import { MemoryReports } from "./memory-reports.js";
import {
  type AcquireRequest,
  type ControlReading,
  type Grant,
  type Hold,
  hardPartOf,
  isWriteInProgress,
  type LeaseTimes,
  type LogPosition,
  type Reading,
  type Release,
  type Store,
  type StoreNames,
  type StoreOutcome,
  type StoreRead,
  type StoreReport,
  type StoreRequest,
  type TagVersion,
  type VersionedControl,
  type Wake,
  WRITE_IN_PROGRESS,
} from "./store.js";
import { type StoredEntry, transitions } from "./transitions.js";

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
/** Maximum number of tags in the invalidation log. Beyond it, the oldest are dropped. */
const MAX_LOGGED_TAGS = 20_000;
/** The name of the invalidation log, in positions only. */
const LOG = "log";
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
  readonly tagsAtOnce = Number.POSITIVE_INFINITY;
  readonly reports: MemoryReports;
  readonly #entries: LRUCache<string, StoredEntry>;
  readonly #tagVersions: LRUCache<string, string>;
  readonly #clock: Clock;
  #drawnLogId: string | undefined;
  /** The invalidation log: the position of the last invalidation of each tag, oldest first. */
  readonly #log = new Map<string, number>();
  #logEndAt = 0;
  /** Invalidations up to this position may have been dropped from the log. */
  #forgottenAt = 0;
  /** The longest retention requested so far. */
  #logRetentionMs = 0;
  readonly #history: MemoryHistory;
  readonly #wakes = new Set<Wake>();
  #writtenControl: VersionedControl | undefined;
  #controlName = "";

  constructor(maxBytes: number, clock: Clock) {
    this.#clock = clock;
    this.reports = new MemoryReports(clock);
    this.#history = new MemoryHistory(clock.now());
    this.#entries = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: sizeOf,
    });
    // Dropping a version turns the entries under its tag into misses, so the bound costs loads
    // only. It is a size, since LRUCache allocates all places of `max` in advance: megabytes, in some 40 ms.
    this.#tagVersions = new LRUCache({ maxSize: Math.ceil(maxBytes / OVERHEAD_BYTES), sizeCalculation: () => 1 });
  }

  /** Drawn when it is first asked for: Cloudflare Workers allow no randomness while a module is evaluated. */
  get #logId(): string {
    this.#drawnLogId ??= randomBytes(8).toString("hex");
    return this.#drawnLogId;
  }

  read(keys: readonly string[], tags: readonly string[]): Promise<StoreRead> {
    const now = this.#clock.now();
    const readings = keys.map((key): Reading => ({ kind: "read", entry: this.#live(key, now), now }));
    const tagVersions = tags.map((tag) => this.#version(tag, now));
    return Promise.resolve({ readings, tagVersions, controlVersion: this.#control?.version });
  }

  get #control(): VersionedControl | undefined {
    const written = this.#writtenControl;
    return written !== undefined && isControlVersion(written.version, this.#clock.now()) ? written : undefined;
  }

  controlCopies(): readonly string[] {
    return [this.#controlName];
  }

  readControl(copies: readonly string[]): Promise<ControlReading[]> {
    return Promise.resolve(copies.map(() => ({ kind: "read", record: this.#control })));
  }

  replaceControl(expected: string | undefined, content: Uint8Array): Promise<string | undefined> {
    if (this.#control?.version !== expected) return Promise.resolve(undefined);
    const version = nextControlVersion(this.#clock.now(), randomBytes(8), expected);
    this.#writtenControl = { version, content };
    return Promise.resolve(version);
  }

  raiseControl(_copies: readonly string[], record: VersionedControl): Promise<void> {
    if (this.#control === undefined || this.#control.version < record.version) this.#writtenControl = record;
    return Promise.resolve();
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

  acquire(requests: readonly AcquireRequest[], times: LeaseTimes, holder?: string): Promise<Grant[]> {
    const now = this.#clock.now();
    const tokens = newTokens(requests.length, holder).toString("latin1");
    return Promise.resolve(
      requests.map((request, index) => {
        const token = tokens.slice(TOKEN_BYTES * index, TOKEN_BYTES * (index + 1));
        const { stored, grant } = transitions.acquire(this.#live(request.key, now), request, token, times, now);
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

  invalidateTags(tags: readonly string[], logRetentionMs: number, isSoft = false): Promise<void> {
    this.#logRetentionMs = Math.max(this.#logRetentionMs, logRetentionMs);
    this.#logEndAt = Math.max(this.#clock.now(), this.#logEndAt + 1);
    for (const tag of tags) {
      // Deleted first, so that the log stays ordered by time.
      this.#log.delete(tag);
      this.#log.set(tag, this.#logEndAt);
      const version = this.#tagVersions.get(tag);
      if (version !== undefined) this.#tagVersions.set(tag, (isSoft ? hardPartOf(version) : "") + randomId());
    }
    const keptAt = this.#logEndAt - this.#logRetentionMs;
    for (const [tag, at] of this.#log) {
      if (at >= keptAt && this.#log.size <= MAX_LOGGED_TAGS) break;
      this.#log.delete(tag);
      this.#forgottenAt = at;
    }
    return Promise.resolve();
  }

  invalidationLogs(): readonly string[] {
    return [LOG];
  }

  readLogPosition(_logs: readonly string[], logRetentionMs: number): Promise<LogPosition> {
    this.#logRetentionMs = Math.max(this.#logRetentionMs, logRetentionMs);
    return Promise.resolve({ [LOG]: `${this.#logId} ${this.#logEndAt}` });
  }

  areUnchangedSince(position: LogPosition, tags: readonly string[]): Promise<boolean> {
    const [logId, at] = position[LOG]?.split(" ") ?? [];
    const endAt = Number(at);
    return Promise.resolve(
      logId === this.#logId && this.#forgottenAt <= endAt && tags.every((tag) => (this.#log.get(tag) ?? -1) <= endAt),
    );
  }

  beginWrite(names: readonly string[], writer: string, writeGuardMs: number): Promise<void> {
    const now = this.#clock.now();
    for (const name of names) {
      const before = this.#live(name, now);
      this.#tagVersions.delete(name);
      this.#change(name, before, transitions.beginWrite(before, writer, writeGuardMs, now));
    }
    return Promise.resolve();
  }

  endWrite(names: readonly string[], writer: string): Promise<void> {
    const now = this.#clock.now();
    for (const name of names) {
      const before = this.#live(name, now);
      if (before?.state === "write-in-progress") this.#change(name, before, transitions.endWrite(before, writer));
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

  open({ controlRecord }: StoreNames, wake: Wake): Cancel {
    if (this.#controlName !== "" && this.#controlName !== controlRecord)
      throw new CachedError(
        "CACHED_OPTION_INVALID",
        "createCache: `store`: expected a store that no cache with another `prefix` uses, got one in use; create a memoryStore for each prefix",
      );
    this.#controlName = controlRecord;
    this.#wakes.add(wake);
    return () => void this.#wakes.delete(wake);
  }

  #version(tag: string, now: number): TagVersion {
    return this.#live(tag, now)?.state === "write-in-progress" ? WRITE_IN_PROGRESS : this.#tagVersions.get(tag);
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

const randomId = (): string => randomBytes(16).toString("latin1");
