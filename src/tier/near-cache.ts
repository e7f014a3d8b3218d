import { outsideOfRequests } from "../async-context.js";
import type { Clock, Random } from "../clock.js";
import type { EntryNames, Key } from "../keys/key.js";
import type { Policy } from "../policy/policy.js";
import type { Entry } from "../store/entry.js";
import type { ChangeListener, TagVersion } from "../store/store.js";
import type { ControlRecord } from "./control-record.js";
import type { DecodedValue } from "./entry-decoder.js";
import { freezePlain, isFreezable } from "./freeze-plain.js";
import { earliestRefreshAt, isDueEarly } from "./freshness.js";
import { NearEntries, type NearEntry, type NearValue } from "./near-entries.js";
import { haveSameTags, NO_TAGS, type ReadReport, type ReadRequest, type ReadStart } from "./request.js";
import { ServedReport } from "./served-report.js";
import { ValueMemory } from "./value-memory.js";
import { tagNamesOf } from "./value-tags.js";

/** The settings of the near cache. */
export interface NearCacheSettings {
  /** Maximum memory of all entries, as estimated. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** Whether objects and arrays are frozen, so that code which changes a shared value throws, and others are not shared. */
  readonly isFrozen: boolean;
}

/** The names of an entry. They remember what the near cache has found under them. */
export class NearNames implements EntryNames {
  readonly key: Key;
  readonly tagNames: readonly string[];
  /** Set by the near cache: its entry for these names, which it may have dropped since. */
  near: NearEntry | undefined = undefined;

  constructor(key: Key, tagNames: readonly string[]) {
    this.key = key;
    this.tagNames = tagNames;
  }
}

/** What the near cache holds, and whether it hears of changes. */
export interface NearStatus {
  readonly entries: number;
  readonly maxEntries: number;
  readonly bytes: number;
  readonly maxBytes: number;
  /** Values served since the process started. */
  readonly hits: number;
  /** Whether values are served now: changes are reported, as was confirmed less than two seconds ago. */
  readonly isLive: boolean;
  /** Up to when all changes were reported, on the clock of this process. Undefined: never yet. */
  readonly confirmedAt: number | undefined;
}

/** What the control record says of a key. */
export type NearScopes = Pick<ControlRecord, "nearScopes" | "nearScopeOf">;

/** Number of changes that are remembered, to detect one that arrives while a read is under way. */
const MAX_CHANGES = 10_000;
/** Measured memory of a tag in an entry, and of one that no other entry has: `bench/near-sizes.ts`. */
const TAG_BYTES = 32;
const NEW_TAG_BYTES = 250;
/** How old the store's last word may be that every change has been reported. */
const MAX_UNCONFIRMED_MS = 2_000;

/**
 * Keeps fresh values in the memory of this process while the store reports every change. A change
 * of a key drops its value. A change of a tag suspends all values under it until a read of the store
 * shows that the version of the tag is still the same. Possibly missed changes drop everything.
 * Nothing is served unless the store has confirmed, for a time less than two seconds ago, that all
 * changes were reported. A value is therefore outdated for no longer than a message takes, and for
 * less than two seconds whatever happens to the connection.
 */
export class NearCache implements ChangeListener {
  readonly #clock: Clock;
  readonly #random: Random;
  readonly #settings: NearCacheSettings;
  readonly #entries: NearEntries;
  readonly #memory = new ValueMemory();
  /** The keys under each tag. */
  readonly #keysOf = new Map<string, Set<string>>();
  /** The version of each tag in `#keysOf`, the same for all its keys. */
  readonly #versions = new Map<string, string>();
  /** The tags in `#keysOf` that may have another version by now. */
  readonly #suspects = new Set<string>();
  /** The recently changed names, each with the value of `changeCount` after its change. */
  readonly #changes = new Map<string, number>();
  #changeCount = 0;
  /** Results of reads that began before this value of `changeCount` are not stored. */
  #oldestUsableCount = 0;
  #isLive = false;
  #hits = 0;
  /** Until when entries are served. */
  #confirmedUntilAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock, random: Random, settings: NearCacheSettings) {
    this.#clock = clock;
    this.#random = random;
    this.#settings = settings;
    this.#entries = new NearEntries(settings, (key, { tagNames }) => this.#unlink(key, tagNames));
  }

  /** The number of changes so far. A caller reads it before a store read and passes it to `put`. */
  get changeCount(): number {
    return this.#changeCount;
  }

  get status(): NearStatus {
    const { maxEntries, maxBytes } = this.#settings;
    const until = this.#confirmedUntilAt;
    return {
      entries: this.#entries.size,
      maxEntries,
      bytes: this.#entries.bytes,
      maxBytes,
      hits: this.#hits,
      isLive: this.#isLive && this.#clock.now() < until,
      confirmedAt: until === Number.NEGATIVE_INFINITY ? undefined : until - MAX_UNCONFIRMED_MS,
    };
  }

  /**
   * Returns the fresh value of `names`. Undefined if there is none, if it is due for an early refresh, or if
   * `control` has invalidated it since it was stored.
   */
  get(names: NearNames, policy: Policy, control: NearScopes): NearValue | undefined {
    let { near } = names;
    if (near === undefined || near.isDropped) {
      near = this.#entries.get(names.key.name);
      if (near === undefined || !haveSameTags(near.requestTags, names.tagNames)) return undefined;
      names.near = near;
    }
    const { nearScopes } = control;
    if (near.comparedWith !== nearScopes) {
      if (near.scope !== control.nearScopeOf(names.key)) return undefined;
      near.comparedWith = nearScopes;
    }
    if (this.#suspects.size > 0 && near.tagNames.some((tag) => this.#suspects.has(tag))) return undefined;
    const now = this.#clock.now();
    if (now >= this.#confirmedUntilAt) return undefined;
    if ((now >= near.certainUntilAt || near.policy !== policy) && !this.#isServed(near, policy, now)) return undefined;
    if (!near.isUsed) near.isUsed = true;
    this.#hits++;
    return near;
  }

  /** Returns a promise of the value that `get` has returned, which is the same for all readers. */
  promiseOf(near: NearValue): Promise<unknown> {
    // In the context of the request that it is made for, the promise would keep that alive.
    near.promise ??= outsideOfRequests.runInAsyncScope(() => Promise.resolve(near.value));
    return near.promise;
  }

  #isServed(near: NearEntry, policy: Policy, localNow: number): boolean {
    const now = localNow + near.offsetMs;
    return now < expiryOf(near, policy) && !isDueEarly(near, policy, now, this.#random);
  }

  /** Returns how a value that `get` has returned was served. */
  reportOf(value: NearValue, policy: Policy): ReadReport {
    const near = value as NearEntry;
    const now = this.#clock.now() + near.offsetMs;
    return new ServedReport(policy, NO_TAGS, "hit", expiryOf(near, policy) - now, now - near.grantedAt, near);
  }

  /**
   * Stores a fresh value that was read at the store's time `now`, together with the versions of the
   * tags of the request. Does nothing if its key or one of its tags has changed since the read began.
   * `again` returns what makes the value once more, for readers that must not share it.
   */
  put(
    request: ReadRequest,
    entry: Entry,
    {
      value,
      hint,
      resultTags,
      tagVersions,
      again,
    }: Pick<DecodedValue, "value" | "hint" | "resultTags"> & {
      readonly tagVersions: readonly TagVersion[];
      readonly again?: () => () => unknown;
    },
    now: number,
    { sentAt, changeCount }: ReadStart,
    scope?: string,
  ): void {
    const { name } = request.key;
    const requestTags = request.tags.names;
    const tagNames = tagNamesOf(request.tags, { hint, resultTags });
    if (!this.#isLive || changeCount < this.#oldestUsableCount) return;
    if ([name, ...tagNames].some((changed) => (this.#changes.get(changed) ?? 0) > changeCount)) return;
    for (const [index, tag] of tagNames.entries()) {
      // The read is newer than the last change of the tag, so its version decides about the others.
      // Those of tags of results are not known one by one.
      const version = tagVersions[index];
      if (version === undefined ? this.#suspects.has(tag) : this.#versions.get(tag) !== version) this.#dropUnder(tag);
      this.#suspects.delete(tag);
    }
    const isReadOnly = request.policy.readOnly === true;
    if (this.#settings.isFrozen || isReadOnly) freezePlain(value);
    const isShared = !this.#settings.isFrozen || isReadOnly || isFreezable(value);
    const decode = isShared ? undefined : again?.();
    const { freshUntilAt, grantedAt, loadMs } = entry;
    const { policy } = request;
    // The store read its clock after `sentAt`, so a value never expires later here than there.
    const offsetMs = now - sentAt;
    const newTags = tagNames.filter((tag) => !this.#keysOf.has(tag)).length;
    const near: NearEntry = {
      value: decode === undefined ? value : decode(),
      decode,
      promise: undefined,
      passed: undefined,
      isDropped: false,
      isUsed: false,
      comparedWith: undefined,
      policy,
      certainUntilAt: Math.floor(Math.min(expiryOf(entry, policy), earliestRefreshAt(entry, policy)) - offsetMs),
      offsetMs,
      freshUntilAt,
      grantedAt,
      loadMs,
      scope,
      hint,
      requestTags,
      tagNames,
      bytes: entry.body.byteLength,
      memoryBytes:
        this.#memory.of(value, entry.body.byteLength) +
        (decode === undefined ? 0 : entry.body.byteLength) +
        tagNames.length * TAG_BYTES +
        newTags * NEW_TAG_BYTES,
    };
    if (!this.#entries.set(name, near)) return;
    for (const [index, tag] of tagNames.entries()) {
      const keys = this.#keysOf.get(tag) ?? new Set();
      this.#keysOf.set(tag, keys.add(name));
      const version = tagVersions[index];
      if (version !== undefined) this.#versions.set(tag, version);
    }
  }

  /** Drops what this process has invalidated itself, without waiting for the store to report it. */
  drop(names: readonly string[]): void {
    for (const name of names) this.changed(name);
  }

  changed(name: string | undefined): void {
    this.#changeCount++;
    if (name === undefined) {
      this.#clear();
      return;
    }
    this.#changes.delete(name);
    this.#changes.set(name, this.#changeCount);
    if (this.#changes.size > MAX_CHANGES) {
      const [oldest] = this.#changes;
      if (oldest !== undefined) {
        this.#changes.delete(oldest[0]);
        this.#oldestUsableCount = oldest[1];
      }
    }
    this.#entries.delete(name);
    if (this.#keysOf.has(name)) this.#suspects.add(name);
  }

  began(): void {
    this.#isLive = true;
    this.#clear();
    this.confirmed(0);
  }

  confirmed(agoMs: number): void {
    this.#confirmedUntilAt = this.#clock.now() - agoMs + MAX_UNCONFIRMED_MS;
  }

  lost(): void {
    this.#isLive = false;
    this.#clear();
  }

  #clear(): void {
    this.#changeCount++;
    this.#oldestUsableCount = this.#changeCount;
    this.#changes.clear();
    this.#entries.clear();
    this.#keysOf.clear();
    this.#versions.clear();
    this.#suspects.clear();
  }

  #dropUnder(tag: string): void {
    for (const key of [...(this.#keysOf.get(tag) ?? [])]) this.#entries.delete(key);
  }

  #unlink(key: string, tags: readonly string[]): void {
    for (const tag of tags) {
      const keys = this.#keysOf.get(tag);
      keys?.delete(key);
      if (keys?.size !== 0) continue;
      this.#keysOf.delete(tag);
      this.#versions.delete(tag);
      this.#suspects.delete(tag);
    }
  }
}

/** Returns until when an entry is fresh, on the store's clock. */
const expiryOf = (
  { freshUntilAt, grantedAt }: Pick<Entry, "freshUntilAt" | "grantedAt">,
  { maxAgeMs, maxAgeLimitMs = maxAgeMs }: Policy,
): number => Math.min(freshUntilAt, grantedAt + maxAgeLimitMs);
