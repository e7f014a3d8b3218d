import { outsideOfRequests } from "../async-context.js";
import type { Clock, Random } from "../clock.js";
import type { Key } from "../keys/key.js";
import type { Policy } from "../policy/policy.js";
import type { Entry } from "../store/entry.js";
import type { ChangeListener } from "../store/store.js";
import type { ControlRecord } from "./control-record.js";
import type { DecodedValue } from "./entry-decoder.js";
import { freezePlain, isFreezable } from "./freeze-plain.js";
import { earliestRefreshAt, isDueEarly } from "./freshness.js";
import type { InvalidationClock } from "./invalidation-clock.js";
import { NearEntries, type NearEntry, type NearValue } from "./near-entries.js";
import { NO_TAGS, type ReadReport, type ReadRequest, type ReadStart, type RequestTags } from "./request.js";
import { ServedReport } from "./served-report.js";
import { ValueMemory } from "./value-memory.js";

/** The settings of the near cache. */
export interface NearCacheSettings {
  /** Maximum memory of all entries, as estimated. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** Whether objects and arrays are frozen, so that code which changes a shared value throws, and others are not shared. */
  readonly isFrozen: boolean;
}

/** The key of an entry, and its tags that are known before its load. They remember what the near cache has found under the key. */
export class NearNames {
  readonly key: Key;
  readonly tags: RequestTags;
  /** Set by the near cache: its entry for these names, which it may have dropped since. */
  near: NearEntry | undefined = undefined;

  constructor(key: Key, tags: RequestTags) {
    this.key = key;
    this.tags = tags;
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
export type Signatures = Pick<ControlRecord, "signatures" | "signatureOf">;

/** Number of changes that are remembered, to detect one that arrives while a read is under way. */
const MAX_CHANGES = 10_000;
/** Memory of a tag in an entry. */
const TAG_BYTES = 8;
/** How old the store's last word may be that every change has been reported. */
const MAX_UNCONFIRMED_MS = 2_000;

/**
 * Keeps fresh values in the memory of this process while the store reports every change. A change
 * of a key drops its value. A change of the invalidation clock makes this process read what is new in it, and values are compared with
 * what it knows. Possibly missed changes drop everything.
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
  readonly #invalidations: InvalidationClock;
  /** What the names of the invalidation clock begin with. */
  readonly #clockName: string;
  /** Until when entries are served although the clock has changed and this process has not read it. */
  #behindUntilAt = Number.POSITIVE_INFINITY;
  /** The number of changes of the clock so far. */
  #clockChanges = 0;
  #isFollowing = false;
  /** The recently changed names, each with the value of `changeCount` after its change. */
  readonly #changes = new Map<string, number>();
  #changeCount = 0;
  /** Results of reads that began before this value of `changeCount` are not stored. */
  #oldestUsableCount = 0;
  #isLive = false;
  #hits = 0;
  /** Until when entries are served. */
  #confirmedUntilAt = Number.NEGATIVE_INFINITY;

  constructor(
    clock: Clock,
    random: Random,
    invalidations: InvalidationClock,
    clockName: string,
    settings: NearCacheSettings,
  ) {
    this.#clock = clock;
    this.#random = random;
    this.#invalidations = invalidations;
    this.#clockName = clockName;
    this.#settings = settings;
    this.#entries = new NearEntries(settings);
  }

  /** The number of changes so far. A caller reads it before a store read and passes it to `put`. */
  get changeCount(): number {
    return this.#changeCount;
  }

  get status(): NearStatus {
    const { maxEntries, maxBytes } = this.#settings;
    const until = Math.min(this.#confirmedUntilAt, this.#behindUntilAt);
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
  get(names: NearNames, policy: Policy, control: Signatures): NearValue | undefined {
    let { near } = names;
    if (near === undefined || near.isDropped) {
      near = this.#entries.get(names.key.name);
      if (near === undefined) return undefined;
      names.near = near;
    }
    const { signatures } = control;
    if (near.comparedWith !== signatures) {
      if (near.scope !== control.signatureOf(names.key)) return undefined;
      near.comparedWith = signatures;
    }
    if (near.comparedAt !== this.#invalidations.changes && !this.#isCurrent(near, names.key)) {
      this.#entries.delete(names.key.name);
      return undefined;
    }
    if (names.tags.isOwn && this.#invalidations.stateOf(names.tags.subjects, near.position) !== "current")
      return undefined;
    const now = this.#clock.now();
    if (now >= this.#confirmedUntilAt || now >= this.#behindUntilAt) return undefined;
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

  /** Compares a value with the invalidations that this process knows. */
  #isCurrent(near: NearEntry, key: Key): boolean {
    if (!this.#invalidations.counts(near, key)) return false;
    if (this.#invalidations.isSoftlyInvalidated(near.position, key)) return false;
    if (this.#invalidations.stateOf(near.subjects, near.position) !== "current") return false;
    near.comparedAt = this.#invalidations.changes;
    return true;
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
   * Stores a fresh value that was read at the store's time `now`. Does nothing if its key has changed since the read began.
   * `again` returns what makes the value once more, for readers that must not share it.
   */
  put(
    request: ReadRequest,
    entry: Entry,
    {
      value,
      hint,
      subjects,
      again,
    }: Pick<DecodedValue, "value" | "hint" | "subjects"> & {
      readonly again?: () => () => unknown;
    },
    now: number,
    { sentAt, changeCount }: ReadStart,
    scope?: string,
  ): void {
    const { name } = request.key;
    if (!this.#isLive || changeCount < this.#oldestUsableCount) return;
    if ((this.#changes.get(name) ?? 0) > changeCount) return;
    const isReadOnly = request.policy.readOnly === true;
    if (this.#settings.isFrozen || isReadOnly) freezePlain(value);
    const isShared = !this.#settings.isFrozen || isReadOnly || isFreezable(value);
    const decode = isShared ? undefined : again?.();
    const { freshUntilAt, grantedAt, loadMs, epoch, position } = entry;
    const { policy } = request;
    // The store read its clock after `sentAt`, so a value never expires later here than there.
    const offsetMs = now - sentAt;
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
      subjects,
      epoch,
      position,
      // Compared by the first hit.
      comparedAt: -1,
      bytes: entry.body.byteLength,
      memoryBytes:
        this.#memory.of(value, entry.body.byteLength) +
        (decode === undefined ? 0 : entry.body.byteLength) +
        subjects.length * TAG_BYTES,
    };
    this.#entries.set(name, near);
  }

  /** Drops what this process has invalidated itself, without waiting for the store to report it. */
  drop(names: readonly string[]): void {
    for (const name of names) this.changed(name);
  }

  changed(name: string | undefined): void {
    if (name?.startsWith(this.#clockName) === true) {
      this.#follow();
      return;
    }
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
  }

  /** Reads what is new in the clock. As long as that is not known, values are served for two seconds. */
  #follow(): void {
    this.#clockChanges++;
    this.#behindUntilAt = Math.min(this.#behindUntilAt, this.#clock.now() + MAX_UNCONFIRMED_MS);
    if (this.#isFollowing) return;
    this.#isFollowing = true;
    const upTo = this.#clockChanges;
    void this.#invalidations.follow().then((isKnown) => {
      this.#isFollowing = false;
      if (isKnown && upTo !== this.#clockChanges) {
        this.#follow();
        return;
      }
      // What is put from now on was read later than the change, and then evaluated with it.
      if (!isKnown) this.#clear();
      this.#behindUntilAt = Number.POSITIVE_INFINITY;
    });
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
  }
}

/** Returns until when an entry is fresh, on the store's clock. */
const expiryOf = (
  { freshUntilAt, grantedAt }: Pick<Entry, "freshUntilAt" | "grantedAt">,
  { maxAgeMs, maxAgeLimitMs = maxAgeMs }: Policy,
): number => Math.min(freshUntilAt, grantedAt + maxAgeLimitMs);
