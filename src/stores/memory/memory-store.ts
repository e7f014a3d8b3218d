import { LRUCache } from "lru-cache";
import { asJob, type Clock, systemClock } from "../../core/base/clock.js";
import { describeSetting, optionInvalid } from "../../core/base/errors.js";
import { checkOptionNames } from "../../core/base/option-names.js";
import { appendToClock, readHead, type StoredClock } from "../../core/store/clock-log.js";
import { checkPrefix, REPORTS_WANTED_MS, type Store, type StoreListener } from "../../core/store/store.js";
import { type Decision, decisions, newTokens, type StoredEntry, transitions } from "../../core/store/transitions.js";

/**
 * Creates a store in the memory of this process, bounded in bytes: for servers with one process,
 * for development and for tests. It applies `transitions`, the state table that the Redis scripts
 * implement as well. Throws `CACHED_OPTION_INVALID` if `maxBytes` is invalid.
 */
export function memoryStore(options: MemoryStoreOptions = {}): Store {
  checkOptionNames(options, "memoryStore", ["maxBytes", "clock"]);
  const { maxBytes = DEFAULT_MAX_BYTES, clock = systemClock } = options;
  if (!Number.isInteger(maxBytes) || maxBytes < 1024)
    throw optionInvalid(
      `memoryStore: \`maxBytes\`: expected an integer of at least 1024, got ${describeSetting(maxBytes)}; pass a number of bytes`,
    );
  const entries = new LRUCache<string, StoredEntry>({ maxSize: maxBytes, sizeCalculation: sizeOf });
  const reports = new Map<string, { readonly report: Uint8Array; readonly dropAt: number }>();
  let reportsWantedUntil = Number.NEGATIVE_INFINITY;
  const listeners = new Set<StoreListener>();
  let invalidations: StoredClock | undefined;
  let opened: string | undefined;

  /** Drops an entry whose time is over. */
  function live(key: string, now: number): StoredEntry | undefined {
    const entry = entries.get(key);
    if (entry === undefined || now < entry.dropAt) return entry;
    entries.delete(key);
    return undefined;
  }

  function put(key: string, entry: StoredEntry | undefined): void {
    if (entry === undefined) entries.delete(key);
    else if (entry !== entries.peek(key)) entries.set(key, entry);
  }

  /** Decides about the entry of each item, and wakes those who wait for a lease chain that ends. */
  function changeEach<Item extends { readonly key: string }, Result>(
    items: readonly Item[],
    decide: (before: StoredEntry | undefined, item: Item, now: number) => Decision<Result>,
  ): Result[] {
    const now = clock.now();
    return items.map((item) => {
      const { key } = item;
      const before = live(key, now);
      const { result, change } = decide(before, item, now);
      if (change === undefined) return result;
      put(key, change.to);
      if (before?.hasWaiters === true && change.to?.gen !== before.gen)
        // Deferred, as by a network: waiters must not run inside another caller's operation.
        asJob(() => {
          for (const { wake } of listeners) wake(key, change.forWaiters, before.gen);
        });
      return result;
    });
  }

  return {
    name: "memory",
    isShared: false,
    async read(keys) {
      const now = clock.now();
      return {
        readings: keys.map((key) => ({ kind: "read", entry: live(key, now), now })),
        clock: invalidations?.head,
      };
    },
    async appendClock(records, lostEpoch) {
      const before = invalidations;
      invalidations = appendToClock(before, records, Math.floor(clock.now() * 1000), MAX_LOG_BYTES, lostEpoch);
      const { head } = invalidations;
      if (head !== before?.head)
        asJob(() => {
          for (const { clockChanged } of listeners) clockChanged?.(head);
        });
      return head;
    },
    async readClock(from) {
      return invalidations?.log.subarray(from);
    },
    async acquire(requests, times, { epoch, position }, holder) {
      const head = readHead(invalidations?.head);
      if (head?.epoch !== epoch) return requests.map(() => ({ kind: "expired" }));
      const origin = { epoch, position: Math.min(position, head.position) };
      const now = clock.now();
      const tokens = newTokens(requests.length, holder);
      return requests.map((request, nth) => {
        const token = tokens[nth] as string;
        const { stored, grant } = transitions.acquire(live(request.key, now), request, token, times, origin, now);
        put(request.key, stored);
        return grant;
      });
    },
    storeValues: async (requests) =>
      changeEach(requests, (before, request, now) =>
        // A value that is larger than the store would be dropped at once.
        decisions.storeValue(before, request, now, (stored) => sizeOf(stored, request.key) > maxBytes),
      ),
    renew: async (holds, times) => changeEach(holds, (before, hold, now) => decisions.renew(before, hold, times, now)),
    release: async (releases) => changeEach(releases, decisions.release),
    async remove(keys, { soft = false } = {}) {
      const decide = soft ? decisions.softInvalidate : () => ({ result: undefined, change: { to: undefined } });
      const items = keys.map((key) => ({ key }));
      changeEach(items, decide);
    },
    async writeReport(process, report, ttlMs) {
      reports.set(process, { report, dropAt: clock.now() + ttlMs });
      return clock.now() < reportsWantedUntil;
    },
    async readReports() {
      const now = clock.now();
      reportsWantedUntil = now + REPORTS_WANTED_MS;
      for (const [process, { dropAt }] of reports) if (dropAt <= now) reports.delete(process);
      return [...reports.values()].map(({ report }) => report);
    },
    open(names, listener) {
      checkPrefix(opened, names.clock, "memoryStore");
      opened = names.clock;
      const own = { ...listener };
      listeners.add(own);
      return () => void listeners.delete(own);
    },
  };
}

/** The options of `memoryStore`. */
export interface MemoryStoreOptions {
  /**
   * Maximum size of all entries in bytes, keys and values together. The least recently used entries
   * are dropped first, and a value that is larger is not stored. An integer of at least 1024.
   * Default: 64 MiB.
   */
  readonly maxBytes?: number;
  /** The clock of the store. Default: the monotonic clock of the process. */
  readonly clock?: Clock;
}

const OVERHEAD_BYTES = 300;
const MAX_LOG_BYTES = 1024 * 1024;
const DEFAULT_MAX_BYTES = 64 * 1024 * 1024;

const sizeOf = ({ body }: StoredEntry, key: string): number => OVERHEAD_BYTES + key.length + body.byteLength;
