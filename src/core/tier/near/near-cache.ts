import { type Cancel, type Clock, outsideOfRequests, type Random } from "../../base/clock.js";
import type { Key } from "../../keys/key.js";
import type { Policy } from "../../policy/policy.js";
import type { Entry } from "../../store/entry.js";
import type { Store } from "../../store/store.js";
import type { DecodedValue } from "../entry/entry-decoder.js";
import { freezePlain, isFreezable } from "../entry/freeze-plain.js";
import { earliestRefreshAt, isDueEarly } from "../entry/freshness.js";
import { NO_TAGS, type ReadReport, type ReadRequest, type RequestTags } from "../request/request.js";
import { ServedReport } from "../request/served-report.js";
import { type KnownInvalidations, prepareFor } from "../request/verdict.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import { NearEntries, type NearEntry, type NearValue } from "./near-entries.js";
import { ValueMemory } from "./value-memory.js";

/**
 * Keeps fresh values in the memory of this process. Each has the position of its load and its tags, as in the store, and counts as long as
 * nothing that this process knows was invalidated later. What it knows is at most two seconds old, or else nothing is served:
 *
 * - Every read of the store shows the head of the invalidation clock, and so whether this process knows everything.
 * - Without reads, it asks for the head every half second.
 * - A message tells of each invalidation in between. If it is lost, the next read or question finds what it has told of.
 *
 * A value is therefore outdated for no longer than a message takes, and for less than two seconds whatever happens to messages, the
 * connection or the store. A process that asks for no values stops asking for the head; its next read makes it current again.
 */
export class NearCache {
  readonly #parts: NearCacheParts;
  readonly #entries: NearEntries;
  readonly #memory = new ValueMemory();
  readonly #invalidations: InvalidationClock;
  #hits = 0;
  #isPolling = false;
  #idlePolls = 0;
  /** When it last began to poll, or polled. */
  #polledAt = 0;
  #isClosed = false;
  #cancelPoll: Cancel = () => undefined;

  constructor(parts: NearCacheParts) {
    this.#parts = parts;
    this.#invalidations = parts.invalidations;
    this.#entries = new NearEntries(parts.settings);
  }

  close(): void {
    this.#isClosed = true;
    this.#cancelPoll();
  }

  get status(): NearStatus {
    const { maxEntries, maxBytes } = this.#parts.settings;
    const { asOf } = this.#invalidations;
    return {
      entries: this.#entries.size,
      maxEntries,
      bytes: this.#entries.bytes,
      maxBytes,
      hits: this.#hits,
      isLive: this.#isLiveAt(this.#parts.clock.now()),
      confirmedAt: asOf === Number.NEGATIVE_INFINITY ? undefined : asOf,
    };
  }

  /**
   * Returns the fresh value of `names`. Undefined if there is none, if it is due for an early refresh or was invalidated, or if this process
   * may not know of its invalidation.
   */
  get(names: NearKey, policy: Policy): NearValue | undefined {
    let { near } = names;
    if (near === undefined || near.isDropped) {
      near = this.#entries.get(names.key.name);
      if (near === undefined) return undefined;
      names.near = near;
    }
    this.#keepPolling();
    if (near.comparedAt !== this.#invalidations.changes && !this.#isCurrent(near, names.key)) {
      this.#entries.delete(names.key.name);
      return undefined;
    }
    if (names.tags.isOwn && this.#invalidations.stateOf(names.tags.subjects, near.position) !== "current")
      return undefined;
    const now = this.#parts.clock.now();
    if (!this.#isLiveAt(now)) return undefined;
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

  #isLiveAt(now: number): boolean {
    return now - this.#invalidations.asOf < SERVED_MS;
  }

  /** Compares a value with the invalidations that this process knows. */
  #isCurrent(near: NearEntry, key: Key): boolean {
    if (near.readAt <= this.#invalidations.restartedAt) return false;
    if (!this.#invalidations.counts(near, key)) return false;
    if (this.#invalidations.isSoftlyInvalidated(near.position, key)) return false;
    if (this.#invalidations.stateOf(near.subjects, near.position) !== "current") return false;
    near.comparedAt = this.#invalidations.changes;
    return true;
  }

  #isServed(near: NearEntry, policy: Policy, localNow: number): boolean {
    const now = localNow + near.offsetMs;
    return now < expiryOf(near, policy) && !isDueEarly(near, policy, now, this.#parts.random);
  }

  /** Returns how a value that `get` has returned was served. */
  reportOf(value: NearValue, policy: Policy): ReadReport {
    const near = value as NearEntry;
    const now = this.#parts.clock.now() + near.offsetMs;
    return new ServedReport(policy, NO_TAGS, "hit", expiryOf(near, policy) - now, now - near.grantedAt, near);
  }

  /**
   * Stores a fresh value that was read at the store's time `now`, by a read that was sent at `sentAt` on the clock of this process. If it was
   * invalidated meanwhile, the first hit finds out.
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
    sentAt: number,
  ): void {
    const isReadOnly = request.policy.readOnly === true;
    if (this.#parts.settings.isFrozen || isReadOnly) freezePlain(value);
    const isShared = !this.#parts.settings.isFrozen || isReadOnly || isFreezable(value);
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
      policy,
      certainUntilAt: Math.floor(Math.min(expiryOf(entry, policy), earliestRefreshAt(entry, policy)) - offsetMs),
      offsetMs,
      readAt: Math.floor(sentAt),
      freshUntilAt,
      grantedAt,
      loadMs,
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
    this.#entries.set(request.key.name, near);
    this.#keepPolling();
  }

  /** Drops the value of a key: there is a newer one, or the value must not be served. */
  drop(name: string): void {
    this.#entries.delete(name);
  }

  /** Called with every value that is asked for, or stored. */
  #keepPolling(): void {
    this.#idlePolls = 0;
    if (this.#isPolling) return;
    this.#isPolling = true;
    this.#polledAt = this.#parts.clock.now();
    this.#pollLater();
  }

  #pollLater(): void {
    if (this.#isClosed) return;
    const waitMs = Math.max(0, this.#pollDueAt - this.#parts.clock.now());
    this.#cancelPoll = this.#parts.clock.after(waitMs, () => void this.#pollIfDue());
  }

  async #pollIfDue(): Promise<void> {
    this.#idlePolls++;
    if (this.#idlePolls > MAX_IDLE_POLLS) {
      this.#isPolling = false;
      return;
    }
    // A read may have confirmed something meanwhile.
    if (this.#parts.clock.now() >= this.#pollDueAt) await this.#poll();
    this.#pollLater();
  }

  get #pollDueAt(): number {
    return Math.max(this.#invalidations.asOf, this.#polledAt) + POLL_MS;
  }

  /** Confirms what this process knows, without a read of an entry. Never rejects. */
  async #poll(): Promise<void> {
    const { store, invalidations } = this.#parts;
    const sentAt = this.#parts.clock.now();
    this.#polledAt = sentAt;
    const isKnown = await prepareFor(await store.read([]), this.#parts);
    if (isKnown) invalidations.confirm(sentAt);
  }

  /** Heeds a message. A process that serves nothing reads what is new with its next read. */
  hear(head: Buffer | undefined): void {
    if (this.#isClosed || !this.#isLiveAt(this.#parts.clock.now())) return;
    void (head === undefined ? this.#poll() : this.#invalidations.hear(head));
  }
}

/** The settings of the near cache. */
export interface NearCacheSettings {
  /** Maximum memory of all entries, as estimated. */
  readonly maxBytes: number;
  readonly maxEntries: number;
  /** Whether objects and arrays are frozen, so that code which changes a shared value throws, and others are not shared. */
  readonly isFrozen: boolean;
}

/** The key of an entry, and its tags that are known before its load. They remember what the near cache has found under the key. */
export interface NearKey {
  readonly key: Key;
  readonly tags: RequestTags;
  /** Set by the near cache: its entry for these names, which it may have dropped since. */
  near: NearEntry | undefined;
}

/** What the near cache holds, and whether it serves that. */
export interface NearStatus {
  readonly entries: number;
  readonly maxEntries: number;
  readonly bytes: number;
  readonly maxBytes: number;
  /** Values served since the process started. */
  readonly hits: number;
  /** Whether values are served now: this process has confirmed less than two seconds ago that it knows all invalidations. */
  readonly isLive: boolean;
  /** When it last did so, on the clock of this process. Undefined: never yet. */
  readonly confirmedAt: number | undefined;
}

/** What the near cache uses. */
export interface NearCacheParts extends KnownInvalidations {
  readonly clock: Clock;
  readonly random: Random;
  readonly store: Pick<Store, "read">;
  readonly settings: NearCacheSettings;
}

/** Memory of a tag in an entry. */
const TAG_BYTES = 8;
/** For how long values are served after this process has confirmed that it knows all invalidations. */
const SERVED_MS = 2_000;
/** How often it confirms that by itself, while values are asked for. */
const POLL_MS = 500;
/** After how many times in a row that nobody has asked for a value it stops. */
const MAX_IDLE_POLLS = 20;

/** Returns until when an entry is fresh, on the store's clock. */
const expiryOf = (
  { freshUntilAt, grantedAt }: Pick<Entry, "freshUntilAt" | "grantedAt">,
  { maxAgeMs, maxAgeLimitMs = maxAgeMs }: Policy,
): number => Math.min(freshUntilAt, grantedAt + maxAgeLimitMs);
