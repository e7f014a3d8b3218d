import { randomBytes } from "node:crypto";
import type { Cancel, Clock } from "../clock.js";
import { CachedError } from "../errors.js";
import type { PartTags, Subject } from "../keys/key.js";
import type { LossCheck, Store } from "../store/store.js";
import type { Channel } from "../telemetry/channel.js";
import type { ControlRecord, EntryIdentity, WholeNames } from "./control-record.js";
import { type InvalidationCause, RETRY } from "./invalidation-cause.js";
import type { InvalidationClock } from "./invalidation-clock.js";
import type { InvalidationHistory, RecordedKind } from "./invalidation-history.js";
import type { UnleasedLoads } from "./load-sharing.js";
import type { NearCache } from "./near-cache.js";
import { type InvalidationCount, RecentInvalidations } from "./recent-invalidations.js";
import type { TierSettings } from "./settings.js";
import {
  MAX_NAMES,
  type Names,
  type UnconfirmedCounts,
  type UnconfirmedInvalidations,
} from "./unconfirmed-invalidations.js";
import type { WorkUnderWay } from "./work-under-way.js";

/** Interval between attempts to repeat unconfirmed invalidations. */
const RETRY_MS = 250;

/**
 * What an invalidation does with values. `hard` removes them. `soft` makes them stale, to be served
 * while they are loaded again. `replace` removes them for a new value that the caller stores at
 * once, so that there is no hold-off for replica lag.
 */
export type InvalidationKind = "hard" | "soft" | "replace";

/**
 * How many invalidations the store has not confirmed. `everything`: everything under the prefix is invalidated. `sinceAt`: on the clock of this
 * process; undefined if there are none.
 */
export interface UnconfirmedStatus extends UnconfirmedCounts {
  readonly sinceAt: number | undefined;
}

/** The parts that `Invalidation` uses. */
export interface InvalidationParts {
  readonly store: Store;
  readonly control: ControlRecord;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly channel: Channel;
  readonly unleasedLoads: UnleasedLoads;
  readonly unconfirmed: UnconfirmedInvalidations;
  readonly near: NearCache | undefined;
  readonly history: InvalidationHistory;
  readonly underWay: WorkUnderWay;
  readonly partTags: PartTags;
  readonly settings: TierSettings;
}

/**
 * Invalidates keys and tags in the store and in this process, and protects writes to the source.
 *
 * A key is removed under every variant that the control record lists. The interleaving that needs care
 * is a release that is listed meanwhile:
 *
 * - Its variant is listed, then the record is checked: the check shows it, and its entry is removed too.
 * - The record is checked, then the variant is listed: its first load begins after the invalidation
 *   was called, since a variant is listed in all copies of the record before its first lease request.
 *
 * What is made of entries, such as a response, is invalidated with them, by the tags in `PartTags`.
 */
export class Invalidation {
  readonly #store: Store;
  readonly #control: ControlRecord;
  readonly #invalidations: InvalidationClock;
  readonly #channel: Channel;
  readonly #clock: Clock;
  readonly #unleasedLoads: UnleasedLoads;
  readonly #near: NearCache | undefined;
  readonly #unconfirmed: UnconfirmedInvalidations;
  readonly #recent: RecentInvalidations;
  /** The same, for those who remember what they have read. */
  readonly made: InvalidationCount;
  readonly #history: InvalidationHistory;
  readonly #underWay: WorkUnderWay;
  readonly #partTags: PartTags;
  readonly #settings: TierSettings;
  /** The invalidations that are repeated when `replicaLagMs` is over. */
  readonly #lagging = new Map<Cancel, Names>();
  #unconfirmedSinceAt: number | undefined;
  /** Set while there are unconfirmed invalidations, also while they are being repeated. */
  #retryTimer: Cancel | undefined;
  #isRetrying = false;
  #isClosed = false;

  constructor({
    store,
    control,
    invalidations,
    clock,
    channel,
    unleasedLoads,
    unconfirmed,
    near,
    history,
    underWay,
    partTags,
    settings,
  }: InvalidationParts) {
    this.#store = store;
    this.#control = control;
    this.#invalidations = invalidations;
    this.#channel = channel;
    this.#clock = clock;
    this.#unleasedLoads = unleasedLoads;
    this.#near = near;
    this.#unconfirmed = unconfirmed;
    this.#recent = new RecentInvalidations(clock);
    this.made = this.#recent;
    this.#history = history;
    this.#underWay = underWay;
    this.#partTags = partTags;
    this.#settings = settings;
  }

  /** The invalidations that the store has not confirmed, and since when there have been some. */
  get unconfirmed(): UnconfirmedStatus {
    const { counts } = this.#unconfirmed;
    return { ...counts, sinceAt: this.#unconfirmed.size === 0 ? undefined : this.#unconfirmedSinceAt };
  }

  /** Whether this process has invalidated an entry, or one of its tags, and the store has not confirmed that. */
  isUnconfirmed(key: EntryIdentity, subjects: readonly Subject[]): boolean {
    return this.#unconfirmed.has(key, { subjects });
  }

  /**
   * Resolves when no reader that starts afterwards can get a value loaded before, except a stale
   * value after a soft invalidation. Rejects with `CACHED_STORE_UNAVAILABLE` if the store has not
   * confirmed; the invalidation is then repeated as a hard one until it has.
   */
  run(names: Names, kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    return this.#underWay.add(this.#run(names, kind, cause));
  }

  async #run(names: Names, kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    await this.#applyOrRetry(names, kind, cause);
    if (kind === "hard") await this.#holdOff(names, cause);
  }

  /** Invalidates everything under the prefix, as `run` does. */
  clear(kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    return this.run(EVERYTHING, kind, cause);
  }

  /**
   * Runs `write` while the names are marked as being written: their values are removed before it
   * begins, and values loaded during it are not stored. The mark is renewed until the write ends, so
   * it lasts for `writeGuardMs` if this process dies. Rejects with the error of `write` only: an
   * unavailable store does not prevent the write.
   */
  async around<T>(names: Names, write: () => T | PromiseLike<T>, cause: InvalidationCause): Promise<T> {
    const writer = newWriterId();
    await this.#applyOrRetry(names, "hard", cause, "write").catch(() => undefined);
    // A variant that is listed during the write is not marked. The invalidation after it removes its
    // entries.
    const marked = this.#control.placesOf(names.keys).names;
    const subjects = this.#markedTagsOf(names);
    const stopRenewing = await this.#keepMarked(marked, subjects, writer);
    try {
      return await write();
    } finally {
      await stopRenewing();
      // This must precede endWrite, so that nothing is stored between the two.
      await this.#applyOrRetry(names, "hard", cause, "write").catch(() => undefined);
      // The hold-off precedes endWrite, so that nothing is stored between the two.
      await this.#holdOff(names, cause).catch(() => undefined);
      await Promise.all([
        marked.length === 0 ? undefined : this.#store.endWrite(marked, writer),
        subjects.length === 0
          ? undefined
          : this.#invalidations.append({ kind: "end", subjects, writer: writer.slice(0, 8) }),
      ]).catch(() => this.#retryLater(names));
    }
  }

  /**
   * Marks `names` as being written, and renews the mark until the returned function is called, which
   * resolves when no renewal is under way. A renewal also replaces a mark that has lapsed, and
   * thereby removes what was stored since.
   */
  async #keepMarked(
    names: readonly string[],
    subjects: readonly Subject[],
    writer: string,
  ): Promise<() => Promise<void>> {
    const { writeGuardMs } = this.#settings;
    const mark = (): Promise<void> => this.#beginWrite(names, subjects, writer, writeGuardMs).catch(() => undefined);
    let isOver = false;
    let marking = mark();
    let cancel: Cancel = () => undefined;
    const renewLater = (): void => {
      if (isOver) return;
      cancel = this.#clock.after(writeGuardMs / 3, () => {
        marking = mark();
        void marking.then(renewLater);
      });
    };
    await marking;
    renewLater();
    return () => {
      isOver = true;
      cancel();
      return marking;
    };
  }

  /** Repeats invalidations of whole coordinates, or of the prefix, that the store has lost. */
  repeat(lost: WholeNames, kind: InvalidationKind): void {
    const names = { ...NO_NAMES, ...lost };
    if (kind === "soft") this.#repeatSoftly(names);
    else this.#retryLater(names, 0);
  }

  /**
   * Repeats the recent invalidations that the store may have lost although it had confirmed them,
   * hard ones as hard, soft ones as soft. Readers wait until the check has ended, or used up its time
   * budget; what it has not proved to be there by then is repeated. Until the store confirms the hard
   * ones again, their entries are not read from it.
   */
  replay({ ended, mayBeLost }: LossCheck): void {
    const { keys, softKeys, isClear } = this.#recent.names();
    const isLost = (key: EntryIdentity): boolean => this.#control.placesOf([key]).names.some(mayBeLost);
    const decide = (): void => {
      const lost = { ...NO_NAMES, keys: keys.filter(isLost) };
      if (lost.keys.length > 0) this.#retryLater(lost, 0);
      const soft = { ...NO_NAMES, keys: softKeys.filter(isLost) };
      if (soft.keys.length > 0) this.#repeatSoftly(soft);
    };
    this.#unconfirmed.waitFor(this.#control.restore());
    if (isClear) {
      // It is not known which names to check.
      this.#overflow("recent");
      this.#retryLater(NO_NAMES, 0);
    } else if (keys.length + softKeys.length > 0) this.#unconfirmed.waitFor(ended.then(decide));
  }

  /** Repeats unconfirmed invalidations without waiting for the next attempt: the store is connected again. */
  retryNow(): void {
    if (this.#retryTimer === undefined || this.#isRetrying || this.#isClosed) return;
    this.#retryTimer();
    void this.#retryUnconfirmed();
  }

  /**
   * Resolves when none is unconfirmed or waits for replicas, and all are recorded in the history, as far as the store
   * replies. `untilAt`: when nobody waits for that any more.
   */
  async settled(untilAt: number): Promise<void> {
    while (!this.#isClosed && this.#clock.now() < untilAt && this.#unconfirmed.size + this.#lagging.size > 0)
      await new Promise<void>((resolve) => this.#clock.after(RETRY_MS, resolve));
    await this.#history.flush();
  }

  /**
   * Makes a last attempt at unconfirmed invalidations. If it fails, outdated entries last until
   * their ttl.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retryTimer?.();
    for (const [cancel, names] of this.#lagging) {
      cancel();
      this.#unconfirmed.add(names, this.#partTagsOf(names));
    }
    if (this.#unconfirmed.size > 0) await this.#retryUnconfirmed();
    await this.#history.close();
  }

  /**
   * Invalidates in this process and in the store. If the store does not confirm, schedules a retry
   * and rejects.
   */
  async #applyOrRetry(
    names: Names,
    kind: InvalidationKind,
    cause: InvalidationCause,
    recordedAs: RecordedKind = kind,
  ): Promise<void> {
    this.#recent.add(names, kind === "soft");
    this.#dropLocal(names);
    this.#invalidations.preempt(this.#tagsOf(names), kind === "soft" ? "soft" : "hard");
    try {
      await this.#writeReported(names, kind, cause, recordedAs);
    } catch (error) {
      this.#retryLater(names);
      throw error;
    } finally {
      // What was read meanwhile may be older.
      this.#recent.add(names, kind === "soft");
      this.#dropLocal(names);
    }
  }

  /** Repeats a soft invalidation, or a hard one in its place. */
  #repeatSoftly(names: Names): void {
    this.#writeReported(names, "soft", RETRY).catch(() => this.#retryLater(names));
  }

  /**
   * Drops what this process has in memory. A value in the near cache counts only under the epochs that
   * it was stored under.
   */
  #dropLocal(names: Names): void {
    const { keys, tags, coordinates = [], isClear = false } = names;
    if (isClear) {
      this.#dropAllLocal();
      return;
    }
    const places = this.#control.placesOf(keys);
    if (tags.length + places.coordinates.length + coordinates.length > 0) this.#unleasedLoads.detachAll();
    else this.#unleasedLoads.detach(places.names);
    this.#near?.drop(places.names);
  }

  #dropAllLocal(): void {
    this.#unleasedLoads.detachAll();
    this.#near?.changed(undefined);
  }

  #markedTagsOf(names: Names): readonly Subject[] {
    return this.#control.listsResponses ? this.#tagsOf(names) : names.tags;
  }

  async #beginWrite(
    names: readonly string[],
    subjects: readonly Subject[],
    writer: string,
    guardMs: number,
  ): Promise<void> {
    await Promise.all([
      names.length === 0 ? undefined : this.#store.beginWrite(names, writer, guardMs),
      subjects.length === 0
        ? undefined
        : this.#invalidations.append({ kind: "begin", subjects, writer: writer.slice(0, 8), guardMs }),
    ]);
  }

  /** Returns the tags that are invalidated, with those of what is made of the entries. */
  #tagsOf(names: Names): readonly Subject[] {
    const partTags = this.#partTagsOf(names);
    return partTags.length === 0 ? names.tags : [...names.tags, ...partTags];
  }

  #partTagsOf({ keys, coordinates = [] }: Pick<Names, "keys" | "coordinates">): readonly Subject[] {
    if (keys.length + coordinates.length === 0) return [];
    const { entry, entries, coordinate } = this.#partTags;
    const holders = new Set(keys.map((key) => key.coordinate));
    return [...keys.map(entry), ...[...holders].map(entries), ...coordinates.map(coordinate)];
  }

  /**
   * Invalidates in the store, and publishes and records how that has ended. The attempts to repeat an invalidation are
   * recorded when one succeeds.
   */
  async #writeReported(
    names: Names,
    kind: InvalidationKind,
    cause: InvalidationCause,
    recordedAs: RecordedKind = kind,
  ): Promise<void> {
    const beganAt = this.#clock.now();
    let isConfirmed = false;
    try {
      await this.#write(names, kind);
      isConfirmed = true;
    } finally {
      const { keys, tags, coordinates = [], isClear = false } = names;
      this.#channel.publish({
        name: "invalidation.finished",
        ...cause,
        kind,
        isConfirmed,
        invalidationMs: this.#clock.now() - beganAt,
        tagCount: tags.length,
        entryCount: keys.length,
        coordinates: [...new Set([...keys.map(({ coordinate }) => coordinate), ...coordinates])],
        isClear,
      });
      if (isConfirmed || cause !== RETRY) this.#history.add(names, { kind: recordedAs, cause, beganAt, isConfirmed });
    }
  }

  async #write(names: Names, kind: InvalidationKind): Promise<void> {
    const { keys, tags, coordinates = [], isClear = false } = names;
    const results = await Promise.allSettled([
      keys.length === 0 ? undefined : this.#writeKeys(keys, kind),
      tags.length === 0 ? undefined : this.#invalidateTags(tags, kind),
      isClear || coordinates.length > 0
        ? this.#control.invalidate({ coordinates, isClear }, epochKindOf(kind))
        : undefined,
    ]);
    const failed = results.find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
    // The known record is now as current as for the entries. Nothing is made of what a new value takes the place of: a text.
    const partTags = this.#control.listsResponses && kind !== "replace" ? this.#partTagsOf(names) : [];
    if (partTags.length > 0) await this.#invalidateTags(partTags, kind);
  }

  /**
   * Invalidates keys under every listed variant, and the whole coordinate where a listed variant makes
   * its keys in another way. Then checks that nothing else has been listed, and goes on with what has.
   */
  async #writeKeys(keys: readonly EntryIdentity[], kind: InvalidationKind): Promise<void> {
    const done = new Set<string>();
    let places = this.#control.placesOf(keys);
    for (;;) {
      const names = places.names.filter((name) => !done.has(name));
      const coordinates = places.coordinates.filter((coordinate) => !done.has(coordinate));
      if (names.length + coordinates.length === 0) return;
      for (const place of [...names, ...coordinates]) done.add(place);
      await Promise.all([
        names.length === 0 ? undefined : this.#invalidateNames(names, kind),
        coordinates.length === 0
          ? undefined
          : this.#control.invalidate({ coordinates, isClear: false }, epochKindOf(kind)),
      ]);
      if (coordinates.length > 0 && this.#control.listsResponses)
        await this.#invalidateTags(this.#partTagsOf({ keys: [], coordinates }), kind);
      places = await this.#control.currentPlacesOf(keys, places.names[0] as string);
    }
  }

  #invalidateTags(subjects: readonly Subject[], kind: InvalidationKind): Promise<void> {
    return this.#invalidations.append({ kind: kind === "soft" ? "soft" : "hard", subjects });
  }

  #invalidateNames(names: readonly string[], kind: InvalidationKind): Promise<void> {
    return kind === "soft" ? this.#store.softInvalidate(names) : this.#store.invalidate(names);
  }

  /**
   * Stores nothing for `replicaLagMs`: a lagging replica of the database may still return the old
   * value.
   */
  async #holdOff(names: Names, cause: InvalidationCause): Promise<void> {
    const { replicaLagMs } = this.#settings;
    if (replicaLagMs === 0) return;
    this.#repeatAfterLag(names, replicaLagMs, cause);
    const storeNames = this.#control.placesOf(names.keys).names;
    const subjects = this.#markedTagsOf(names);
    if (storeNames.length + subjects.length === 0) return;
    try {
      await this.#beginWrite(storeNames, subjects, newWriterId(), replicaLagMs);
    } catch (error) {
      this.#retryLater(names);
      throw error;
    }
  }

  /**
   * The entries of a whole coordinate cannot be marked one by one. What is stored during the lag is
   * invalidated at its end.
   */
  #repeatAfterLag({ coordinates = [], isClear = false }: Names, lagMs: number, cause: InvalidationCause): void {
    if ((coordinates.length === 0 && !isClear) || this.#isClosed) return;
    const names = { ...NO_NAMES, coordinates, isClear };
    const cancel = this.#clock.after(lagMs, () => {
      this.#lagging.delete(cancel);
      void this.#applyOrRetry(names, "hard", cause).catch(() => undefined);
    });
    this.#lagging.set(cancel, names);
  }

  #retryLater(names: Names, delayMs = RETRY_MS): void {
    if (this.#unconfirmed.size === 0) this.#unconfirmedSinceAt = this.#clock.now();
    if (this.#unconfirmed.add(names, this.#partTagsOf(names))) this.#overflow("unconfirmed");
    if (this.#unconfirmed.size > 0 && !this.#isClosed)
      this.#retryTimer ??= this.#clock.after(delayMs, () => void this.#retryUnconfirmed());
  }

  async #retryUnconfirmed(): Promise<void> {
    this.#isRetrying = true;
    const names = this.#unconfirmed.snapshot();
    try {
      await this.#writeReported(names, "hard", RETRY);
      await this.#holdOff(names, RETRY);
      if (names.isClear) this.#dropAllLocal();
      names.confirm();
    } catch {
      // Retried below.
    }
    this.#isRetrying = false;
    this.#retryTimer = undefined;
    this.#retryLater(NO_NAMES);
  }

  /** Replaces the names that have to be repeated, which are too many, by the whole prefix. */
  #overflow(what: "unconfirmed" | "recent"): void {
    this.#unconfirmed.addClear();
    this.#dropAllLocal();
    const error = new CachedError(
      "CACHED_STORE_UNAVAILABLE",
      `more than ${MAX_NAMES} keys or tags were invalidated that the store ${what === "recent" ? "may have lost" : "has not confirmed"}; everything under the prefix is invalidated instead, and this process loads without the store until that is confirmed; check the store`,
    );
    this.#channel.publish({ name: "invalidations.overflowed", error });
  }
}

const NO_NAMES: Names = { keys: [], tags: [] };
const EVERYTHING: Names = { ...NO_NAMES, isClear: true };

const epochKindOf = (kind: InvalidationKind): "epoch" | "softEpoch" => (kind === "soft" ? "softEpoch" : "epoch");

/** Returns the id of one write, 16 bytes. */
const newWriterId = (): string => randomBytes(16).toString("latin1");
