import { randomBytes } from "node:crypto";
import type { Cancel, Clock } from "../../base/clock.js";
import { succeeds } from "../../base/deferred.js";
import { CachedError } from "../../base/errors.js";
import { type EntryIdentity, type KeySpace, nameOfSubject } from "../../keys/key.js";
import type { Store } from "../../store/store.js";
import type { Channel } from "../../telemetry/channel.js";
import type { InvalidationCause } from "../../telemetry/events.js";
import type { TierSettings } from "../request/settings.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import type { Invalidated, InvalidatingKind } from "../shared/known-positions.js";
import {
  type InvalidationNames,
  MAX_NAMES,
  RecentInvalidations,
  UnconfirmedInvalidations,
} from "../shared/unconfirmed-invalidations.js";
import type { Variants } from "../shared/variants.js";
import type { WorkUnderWay } from "../tick/work-under-way.js";
import { msBetween } from "./listed-tags.js";

/**
 * Invalidates keys and tags in the store and in this process, and protects writes to the source. A
 * key is invalidated in all variants of its form by one record, which names the form: processes
 * whose keys of the coordinate have another one take all of them for invalidated.
 */
export class Invalidation {
  /** For those who remember what they have read. */
  readonly made = new RecentInvalidations();
  readonly unconfirmed = new UnconfirmedInvalidations();
  #unconfirmedSinceAt: number | undefined;
  /** Set while there are unconfirmed invalidations, also while they are repeated. */
  #retryTimer: Cancel | undefined;
  #isRetrying = false;
  #retryMs = RETRY_MS;
  #isClosed = false;

  constructor(private readonly parts: InvalidationParts) {}

  /** On the clock of this process. Undefined if there are none. */
  get unconfirmedSinceAt(): number | undefined {
    return this.unconfirmed.size === 0 ? undefined : this.#unconfirmedSinceAt;
  }

  /**
   * Resolves when no reader that starts afterwards can get a value loaded before, except a stale
   * value after a soft invalidation. Rejects with `CACHED_STORE_UNAVAILABLE` if the store has not
   * confirmed; the invalidation is then repeated as a hard one until it has.
   */
  run(names: InvalidationNames, kind: InvalidatingKind, cause: InvalidationCause): Promise<void> {
    const run = async (): Promise<void> => {
      await this.#applyOrRetry(names, kind, cause);
      if (kind === "hard") await this.#holdOff(names);
    };
    return this.parts.underWay.add(run().catch(rejectUnconfirmed));
  }

  clear(kind: InvalidatingKind, cause: InvalidationCause): Promise<void> {
    return this.run({ ...NO_NAMES, isClear: true }, kind, cause);
  }

  /**
   * Runs `write` while the names are marked as being written: their values are removed before it
   * begins, and values loaded during it are not stored. The mark is renewed until the write ends,
   * so it lasts for `writeGuardMs` if this process dies; longer for hundreds of names, since each
   * renewal has all of them, and the log has room for so many only. Rejects with the error of
   * `write` only: an unavailable store does not prevent the write.
   */
  async around<T>(names: InvalidationNames, write: () => T | PromiseLike<T>, cause: InvalidationCause): Promise<T> {
    const { clock, invalidations, settings } = this.parts;
    const writer = newWriterId();
    await this.#applyOrRetry(names, "hard", cause).catch(() => undefined);
    const invalidated = this.#invalidatedBy(names);
    const retryMs = settings.writeGuardMs / 3;
    const pauseMs = Math.max(retryMs, msBetween(invalidated.subjects.length));
    const guardMs = settings.writeGuardMs - retryMs + pauseMs;
    let isOver = false;
    let cancelRenewal: Cancel = () => undefined;
    // A renewal also replaces a mark that has lapsed, and thereby removes what was stored since.
    const mark = async (): Promise<void> => {
      const isMarked = await succeeds(invalidations.append({ kind: "begin", ...invalidated, writer, guardMs }));
      if (!isOver)
        cancelRenewal = clock.after(isMarked ? pauseMs : retryMs, () => {
          marking = mark();
        });
    };
    let marking = mark();
    await marking;
    try {
      return await write();
    } finally {
      isOver = true;
      cancelRenewal();
      await marking;
      await this.#applyOrRetry(names, "hard", cause).catch(() => undefined);
      // The hold-off precedes the end of the write, so that nothing is stored between the two.
      await this.#holdOff(names).catch(() => undefined);
      await invalidations
        .append({ kind: "end", ...invalidated, writer })
        .catch(() => this.#retryLater(this.#inThisProcess(names)));
    }
  }

  retryNow(): void {
    if (this.#retryTimer === undefined || this.#isRetrying || this.#isClosed) return;
    this.#retryTimer();
    void this.#retryUnconfirmed();
  }

  /** Resolves when none is unconfirmed, or after `untilAt`. */
  async settled(untilAt: number): Promise<void> {
    const { clock } = this.parts;
    while (!this.#isClosed && clock.now() < untilAt && this.unconfirmed.size > 0)
      await new Promise<void>((resolve) => clock.after(RETRY_MS, resolve, true));
  }

  /** Makes a last attempt. If it fails, outdated entries last until their ttl. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retryTimer?.();
    if (this.unconfirmed.size > 0) await this.#retryUnconfirmed();
  }

  async #applyOrRetry(names: InvalidationNames, kind: InvalidatingKind, cause: InvalidationCause): Promise<void> {
    const local = this.#inThisProcess(names);
    this.made.add(local);
    this.#preempt(names, kind);
    try {
      await this.#apply(names, kind, cause);
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

  /** Once everything has to be invalidated, this process serves nothing that it knows anyway. */
  #preempt(names: InvalidationNames, kind: InvalidatingKind): void {
    if (!this.unconfirmed.isClear) this.parts.invalidations.preempt(this.#invalidatedBy(names), kind);
  }

  /** Adds the coordinates with keys in another form: which of those are meant is not known. */
  #inThisProcess(names: InvalidationNames): InvalidationNames {
    const { keys, coordinates = [] } = names;
    const others = keys.filter((key) => this.parts.variants.hasOtherForm(key.coordinate, key.form));
    if (others.length === 0) return names;
    return { ...names, coordinates: [...new Set([...coordinates, ...others.map((key) => key.coordinate)])] };
  }

  #invalidatedBy({ keys, tags, coordinates = [], isClear = false }: InvalidationNames): Invalidated {
    const { entry, anyOf, coordinate, everything } = this.parts.keys.subjects;
    const forms = new Map(keys.map((key) => [`${key.form} ${key.coordinate}`, key]));
    const holders = new Set(keys.map((key) => key.coordinate));
    const named = [...coordinates.map(coordinate), ...keys.map(entry), ...[...holders].map(anyOf), ...tags];
    return {
      subjects: isClear ? [everything, ...named] : named,
      forms: [...forms.values()].map((key) => ({ coordinate: coordinate(key.coordinate), form: key.form })),
    };
  }

  /** The names of keys under all variants of this process that have their key form. */
  #namesOf(keys: readonly EntryIdentity[]): readonly string[] {
    const names = keys.flatMap((key) => [
      key.name,
      ...this.parts.variants
        .declared(key.coordinate)
        .flatMap(({ id, form }) => (form === key.form ? [this.parts.keys.nameUnder(key, id)] : [])),
    ]);
    return [...new Set(names)];
  }

  /** Publishes how that has ended. */
  async #apply(names: InvalidationNames, kind: InvalidatingKind, cause: InvalidationCause): Promise<void> {
    const { clock, channel, invalidations, store } = this.parts;
    const { keys, tags, coordinates = [], isClear = false } = names;
    const beganAt = clock.now();
    let isConfirmed = false;
    try {
      await invalidations.append({ kind, ...this.#invalidatedBy(names) });
      // Frees the memory of entries, and wakes those who wait for their loads.
      if (keys.length > 0 && kind !== "soft") await store.remove(this.#namesOf(keys)).catch(() => undefined);
      isConfirmed = true;
    } finally {
      channel.publish({
        name: "invalidation.finished",
        ...cause,
        kind,
        isConfirmed,
        invalidationMs: clock.now() - beganAt,
        tagCount: tags.length,
        entryCount: keys.length,
        coordinates: [...new Set([...keys.map(({ coordinate }) => coordinate), ...coordinates])],
        isClear,
        tags: this.#invalidatedBy(this.#inThisProcess(names)).subjects.map(nameOfSubject),
      });
    }
  }

  /** A lagging replica of the database may still return the old value. */
  async #holdOff(names: InvalidationNames): Promise<void> {
    const { replicaLagMs } = this.parts.settings;
    if (replicaLagMs === 0) return;
    try {
      const mark = { writer: newWriterId(), guardMs: replicaLagMs };
      await this.parts.invalidations.append({ kind: "begin", ...this.#invalidatedBy(names), ...mark });
    } catch (error) {
      this.#retryLater(this.#inThisProcess(names));
      throw error;
    }
  }

  #retryLater(names: InvalidationNames): void {
    const { clock } = this.parts;
    if (this.unconfirmed.size === 0) this.#unconfirmedSinceAt = clock.now();
    if (this.unconfirmed.add(names, this.#invalidatedBy(names).subjects)) this.#reportOverflow();
    if (this.unconfirmed.size > 0 && !this.#isClosed)
      this.#retryTimer ??= clock.after(this.#retryMs, () => void this.#retryUnconfirmed());
  }

  async #retryUnconfirmed(): Promise<void> {
    this.#isRetrying = true;
    const names = this.unconfirmed.snapshot();
    try {
      await this.#apply(names, "hard", { via: "retry" });
      await this.#holdOff(names);
      names.confirm();
      this.#retryMs = RETRY_MS;
    } catch {
      // Retried below. Each time, the log may have taken all of it, and a copy of its head not.
      this.#retryMs = Math.min(2 * this.#retryMs, Math.max(RETRY_MS, msBetween(this.unconfirmed.size)));
    }
    this.#isRetrying = false;
    this.#retryTimer = undefined;
    this.#retryLater(NO_NAMES);
  }

  #reportOverflow(): void {
    const mistake = `more than ${MAX_NAMES} keys or tags were invalidated that the store has not confirmed; everything under the prefix is invalidated instead, and this process loads without the store until that is confirmed; check the store`;
    const error = new CachedError("CACHED_STORE_UNAVAILABLE", mistake);
    this.parts.channel.publish({ name: "invalidations.overflowed", error });
  }
}

/** A resolver's error reaches clients: where the store is, only its cause and the log say. */
function rejectUnconfirmed(cause: unknown): never {
  if (!(cause instanceof CachedError && cause.code === "CACHED_STORE_UNAVAILABLE")) throw cause;
  const message =
    "the store has not confirmed an invalidation, which this process repeats until it has; check the store: `cause` says what it answered";
  throw new CachedError(cause.code, message, { cause });
}

const RETRY_MS = 250;

interface InvalidationParts {
  readonly store: Store;
  readonly variants: Variants;
  readonly invalidations: InvalidationClock;
  readonly clock: Clock;
  readonly channel: Channel;
  readonly underWay: WorkUnderWay;
  readonly keys: Pick<KeySpace, "subjects" | "nameUnder">;
  readonly settings: TierSettings;
}

const NO_NAMES: InvalidationNames = { keys: [], tags: [] };

const newWriterId = (): string => randomBytes(8).toString("latin1");
