import { randomBytes } from "node:crypto";
import type { Cancel, Clock } from "../../base/clock.js";
import { CachedError } from "../../base/errors.js";
import { type EntryIdentity, type KeySpace, nameOfSubject, type Subject } from "../../keys/key.js";
import type { Store } from "../../store/store.js";
import type { Channel } from "../../telemetry/channel.js";
import type { InvalidationCause } from "../../telemetry/events.js";
import type { TierSettings } from "../request/settings.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import type { Invalidated } from "../shared/known-positions.js";
import {
  type InvalidationNames,
  MAX_NAMES,
  RecentInvalidations,
  type UnconfirmedCounts,
  type UnconfirmedInvalidations,
} from "../shared/unconfirmed-invalidations.js";
import type { Variants } from "../shared/variants.js";
import type { WorkUnderWay } from "../tick/work-under-way.js";

/**
 * Invalidates keys and tags in the store and in this process, and protects writes to the source. A
 * key is invalidated in all variants of its form by one record, which names the form: processes
 * whose keys of the coordinate have another one take all of them for invalidated.
 */
export class Invalidation {
  readonly #parts: InvalidationParts;
  /** For those who remember what they have read. */
  readonly made = new RecentInvalidations();
  #unconfirmedSinceAt: number | undefined;
  /** Set while there are unconfirmed invalidations, also while they are being repeated. */
  #retryTimer: Cancel | undefined;
  #isRetrying = false;
  #isClosed = false;

  constructor(parts: InvalidationParts) {
    this.#parts = parts;
  }

  get unconfirmed(): UnconfirmedStatus {
    const { counts } = this.#parts.unconfirmed;
    return { ...counts, sinceAt: this.#parts.unconfirmed.size === 0 ? undefined : this.#unconfirmedSinceAt };
  }

  /**
   * Whether this process has invalidated an entry, or one of its tags, and the store has not
   * confirmed that.
   */
  isUnconfirmed(key: EntryIdentity, subjects: readonly Subject[]): boolean {
    return this.#parts.unconfirmed.has(key, { subjects });
  }

  /**
   * Resolves when no reader that starts afterwards can get a value loaded before, except a stale
   * value after a soft invalidation. Rejects with `CACHED_STORE_UNAVAILABLE` if the store has not
   * confirmed; the invalidation is then repeated as a hard one until it has.
   */
  run(names: InvalidationNames, kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    return this.#parts.underWay.add(this.#run(names, kind, cause));
  }

  async #run(names: InvalidationNames, kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    await this.#applyOrRetry(names, kind, cause);
    if (kind === "hard") await this.#holdOff(names);
  }

  clear(kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    return this.run(EVERYTHING, kind, cause);
  }

  /**
   * Runs `write` while the names are marked as being written: their values are removed before it
   * begins, and values loaded during it are not stored. The mark is renewed until the write ends,
   * so it lasts for `writeGuardMs` if this process dies. Rejects with the error of `write` only: an
   * unavailable store does not prevent the write.
   */
  async around<T>(names: InvalidationNames, write: () => T | PromiseLike<T>, cause: InvalidationCause): Promise<T> {
    const writer = newWriterId();
    await this.#applyOrRetry(names, "hard", cause).catch(() => undefined);
    const invalidated = this.#invalidatedBy(names);
    const stopRenewing = await this.#keepMarked(invalidated, writer);
    try {
      return await write();
    } finally {
      await stopRenewing();
      await this.#applyOrRetry(names, "hard", cause).catch(() => undefined);
      // The hold-off precedes the end of the write, so that nothing is stored between the two.
      await this.#holdOff(names).catch(() => undefined);
      await this.#parts.invalidations
        .append({ kind: "end", ...invalidated, writer })
        .catch(() => this.#retryLater(this.#inThisProcess(names)));
    }
  }

  /**
   * Marks what a write concerns, and renews the mark until the returned function is called, which
   * resolves when no renewal is under way. A renewal also replaces a mark that has lapsed, and
   * thereby removes what was stored since.
   */
  async #keepMarked(invalidated: Invalidated, writer: string): Promise<() => Promise<void>> {
    const { clock, invalidations, settings } = this.#parts;
    const { writeGuardMs } = settings;
    const mark = (): Promise<void> =>
      invalidations.append({ kind: "begin", ...invalidated, writer, guardMs: writeGuardMs }).catch(() => undefined);
    let isOver = false;
    let marking = mark();
    let cancel: Cancel = () => undefined;
    const renewLater = (): void => {
      if (isOver) return;
      cancel = clock.after(writeGuardMs / 3, () => {
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

  retryNow(): void {
    if (this.#retryTimer === undefined || this.#isRetrying || this.#isClosed) return;
    this.#retryTimer();
    void this.#retryUnconfirmed();
  }

  /** Resolves when none is unconfirmed, or after `untilAt`. */
  async settled(untilAt: number): Promise<void> {
    while (!this.#isClosed && this.#parts.clock.now() < untilAt && this.#parts.unconfirmed.size > 0)
      await new Promise<void>((resolve) => this.#parts.clock.after(RETRY_MS, resolve, true));
  }

  /** Makes a last attempt. If it fails, outdated entries last until their ttl. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retryTimer?.();
    if (this.#parts.unconfirmed.size > 0) await this.#retryUnconfirmed();
  }

  async #applyOrRetry(names: InvalidationNames, kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    const local = this.#inThisProcess(names);
    this.made.add(local);
    this.#preempt(names, kind);
    try {
      await this.#writeReported(names, kind, cause);
    } catch (error) {
      // The memory may have got what was read meanwhile.
      this.#preempt(names, kind);
      this.#retryLater(local);
      throw error;
    } finally {
      // What was read meanwhile may be older.
      this.made.add(local);
    }
  }

  #preempt(names: InvalidationNames, kind: InvalidationKind): void {
    // Once everything has to be invalidated, this process serves nothing that it knows, and the
    // names would only add up.
    if (!this.#parts.unconfirmed.counts.everything) this.#parts.invalidations.preempt(this.#invalidatedBy(names), kind);
  }

  /**
   * Adds the fields and loaders of which this process also has keys in another form: which of those
   * are meant is not known.
   */
  #inThisProcess(names: InvalidationNames): InvalidationNames {
    const { keys, coordinates = [] } = names;
    const others = keys.filter((key) => this.#parts.variants.hasOtherForm(key.coordinate, key.form));
    if (others.length === 0) return names;
    return { ...names, coordinates: [...new Set([...coordinates, ...others.map((key) => key.coordinate)])] };
  }

  #invalidatedBy({ keys, tags, coordinates = [], isClear = false }: InvalidationNames): Invalidated {
    const { entry, anyOf, coordinate, everything } = this.#parts.keys.subjects;
    const forms = new Map(keys.map((key) => [`${key.form} ${key.coordinate}`, key]));
    const holders = new Set(keys.map((key) => key.coordinate));
    return {
      subjects: [
        ...(isClear ? [everything] : []),
        ...coordinates.map(coordinate),
        ...keys.map(entry),
        ...[...holders].map(anyOf),
        ...tags,
      ],
      forms: [...forms.values()].map((key) => ({ coordinate: coordinate(key.coordinate), form: key.form })),
    };
  }

  /** Returns the names of keys under all variants of this process that have their key form. */
  #namesOf(keys: readonly EntryIdentity[]): readonly string[] {
    const names = keys.flatMap((key) => [
      key.name,
      ...this.#parts.variants
        .declared(key.coordinate)
        .flatMap(({ id, form }) => (form === key.form ? [this.#parts.keys.nameUnder(key, id)] : [])),
    ]);
    return [...new Set(names)];
  }

  /** Publishes how that has ended. */
  async #writeReported(names: InvalidationNames, kind: InvalidationKind, cause: InvalidationCause): Promise<void> {
    const beganAt = this.#parts.clock.now();
    let isConfirmed = false;
    try {
      await this.#write(names, kind);
      isConfirmed = true;
    } finally {
      const { keys, tags, coordinates = [], isClear = false } = names;
      this.#parts.channel.publish({
        name: "invalidation.finished",
        ...cause,
        kind,
        isConfirmed,
        invalidationMs: this.#parts.clock.now() - beganAt,
        tagCount: tags.length,
        entryCount: keys.length,
        coordinates: [...new Set([...keys.map(({ coordinate }) => coordinate), ...coordinates])],
        isClear,
        tags: this.#invalidatedBy(this.#inThisProcess(names)).subjects.map(nameOfSubject),
      });
    }
  }

  /** Removing entries frees their memory, and wakes those who wait for their loads. */
  async #write(names: InvalidationNames, kind: InvalidationKind): Promise<void> {
    await this.#parts.invalidations.append({ kind: kind, ...this.#invalidatedBy(names) });
    if (names.keys.length > 0 && kind !== "soft")
      await this.#parts.store.remove(this.#namesOf(names.keys)).catch(() => undefined);
  }

  /** A lagging replica of the database may still return the old value. */
  async #holdOff(names: InvalidationNames): Promise<void> {
    const { replicaLagMs } = this.#parts.settings;
    if (replicaLagMs === 0) return;
    try {
      const mark = { writer: newWriterId(), guardMs: replicaLagMs };
      await this.#parts.invalidations.append({ kind: "begin", ...this.#invalidatedBy(names), ...mark });
    } catch (error) {
      this.#retryLater(this.#inThisProcess(names));
      throw error;
    }
  }

  #retryLater(names: InvalidationNames, delayMs = RETRY_MS): void {
    if (this.#parts.unconfirmed.size === 0) this.#unconfirmedSinceAt = this.#parts.clock.now();
    if (this.#parts.unconfirmed.add(names, this.#invalidatedBy(names).subjects)) this.#overflow();
    if (this.#parts.unconfirmed.size > 0 && !this.#isClosed)
      this.#retryTimer ??= this.#parts.clock.after(delayMs, () => void this.#retryUnconfirmed());
  }

  async #retryUnconfirmed(): Promise<void> {
    this.#isRetrying = true;
    const names = this.#parts.unconfirmed.snapshot();
    try {
      await this.#writeReported(names, "hard", { via: "retry" });
      await this.#holdOff(names);
      names.confirm();
    } catch {
      // Retried below.
    }
    this.#isRetrying = false;
    this.#retryTimer = undefined;
    this.#retryLater(NO_NAMES);
  }

  #overflow(): void {
    this.#parts.unconfirmed.addClear();
    const error = new CachedError(
      "CACHED_STORE_UNAVAILABLE",
      `more than ${MAX_NAMES} keys or tags were invalidated that the store has not confirmed; everything under the prefix is invalidated instead, and this process loads without the store until that is confirmed; check the store`,
    );
    this.#parts.channel.publish({ name: "invalidations.overflowed", error });
  }
}

const RETRY_MS = 250;

/**
 * What an invalidation does with values. `hard` removes them. `soft` makes them stale, to be served
 * while they are loaded again.
 */
export type InvalidationKind = "hard" | "soft";

/** `sinceAt`: on the clock of this process; undefined if there are none. */
export interface UnconfirmedStatus extends UnconfirmedCounts {
  readonly sinceAt: number | undefined;
}

export interface InvalidationParts {
  readonly store: Store;
  readonly variants: Variants;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly channel: Channel;
  readonly unconfirmed: UnconfirmedInvalidations;
  readonly underWay: WorkUnderWay;
  readonly keys: Pick<KeySpace, "subjects" | "nameUnder">;
  readonly settings: TierSettings;
}

const NO_NAMES: InvalidationNames = { keys: [], tags: [] };
const EVERYTHING: InvalidationNames = { ...NO_NAMES, isClear: true };

const newWriterId = (): string => randomBytes(8).toString("latin1");
