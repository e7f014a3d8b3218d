import { randomBytes } from "node:crypto";
import type { Cancel, Clock } from "../clock.js";
import type { LossCheck, Store } from "../store/store.js";
import type { UnleasedLoads } from "./load-sharing.js";
import type { NearCache } from "./near-cache.js";
import { RecentInvalidations } from "./recent-invalidations.js";
import type { TierSettings } from "./settings.js";
import type { Names, UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";

/** Interval between attempts to repeat unconfirmed invalidations. */
const RETRY_MS = 250;

/**
 * What an invalidation does with values. `hard` removes them. `soft` makes them stale, to be served
 * while they are loaded again. `replace` removes them for a new value that the caller stores at
 * once, so that there is no hold-off for replica lag.
 */
export type InvalidationKind = "hard" | "soft" | "replace";

/** The parts that `Invalidation` uses. */
export interface InvalidationParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly unleasedLoads: UnleasedLoads;
  readonly unconfirmed: UnconfirmedInvalidations;
  readonly near: NearCache | undefined;
  readonly settings: TierSettings;
}

/**
 * Invalidates keys and tags in the store and in this process, and protects writes to the source.
 */
export class Invalidation {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #unleasedLoads: UnleasedLoads;
  readonly #near: NearCache | undefined;
  readonly #unconfirmed: UnconfirmedInvalidations;
  readonly #recent: RecentInvalidations;
  readonly #settings: TierSettings;
  #retryTimer: Cancel | undefined;
  #isClosed = false;

  constructor({ store, clock, unleasedLoads, unconfirmed, near, settings }: InvalidationParts) {
    this.#store = store;
    this.#clock = clock;
    this.#unleasedLoads = unleasedLoads;
    this.#near = near;
    this.#unconfirmed = unconfirmed;
    this.#recent = new RecentInvalidations(clock);
    this.#settings = settings;
  }

  /**
   * Resolves when no reader that starts afterwards can get a value loaded before, except a stale
   * value after a soft invalidation. Rejects with `CACHED_STORE_UNAVAILABLE` if the store has not
   * confirmed; the invalidation is then repeated as a hard one until it has.
   */
  async run(names: Names, kind: InvalidationKind = "hard"): Promise<void> {
    await this.#applyOrRetry(names, kind);
    if (kind === "hard") await this.#holdOff(names);
  }

  /**
   * Runs `write` while the names are marked as being written: their values are removed before it
   * begins, and values loaded during it are not stored. If this process dies meanwhile, the mark
   * ends after `writeGuardMs`. Rejects with the error of `write` only: an unavailable store does
   * not prevent the write.
   */
  async around<T>(names: Names, write: () => T | PromiseLike<T>): Promise<T> {
    const marked = [...names.keys, ...names.tags];
    const writer = newWriterId();
    await this.#applyOrRetry(names, "hard").catch(() => undefined);
    await this.#store.beginWrite(marked, writer, this.#settings.writeGuardMs).catch(() => undefined);
    try {
      return await write();
    } finally {
      // This must precede endWrite: while the mark is there, tag versions do not change, so only
      // the entry in the log stops a value that was loaded during the write from being stored.
      await this.#applyOrRetry(names, "hard").catch(() => undefined);
      // The hold-off must follow endWrite, since it would inherit the later end of the write's
      // mark. It removes what is stored between the two.
      await this.#store
        .endWrite(marked, writer)
        .catch(() => this.#retryLater(names))
        .then(() => this.#holdOff(names))
        .catch(() => undefined);
    }
  }

  /**
   * Repeats the recent invalidations that the store may have lost although it had confirmed them,
   * hard ones as hard, soft ones as soft. Readers wait until the check has ended, or used up
   * its time budget; what it has not proved to be there by then is repeated. Until the store confirms the hard
   * ones again, their entries are not read from it.
   */
  replay({ ended, mayBeLost }: LossCheck): void {
    const { keys, tags, softKeys } = this.#recent.names();
    if (keys.length + tags.length + softKeys.length === 0) return;
    const decide = (): void => {
      const lost = { keys: keys.filter(mayBeLost), tags: tags.filter(mayBeLost) };
      if (lost.keys.length + lost.tags.length > 0) this.#retryLater(lost, 0);
      const softNames = { keys: softKeys.filter(mayBeLost), tags: [] };
      this.#write(softNames, "soft").catch(() => this.#retryLater(softNames));
    };
    this.#unconfirmed.waitFor(ended.then(decide));
  }

  /**
   * Makes a last attempt at unconfirmed invalidations. If it fails, outdated entries last until
   * their ttl.
   */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#retryTimer?.();
    if (this.#unconfirmed.size > 0) await this.#retryUnconfirmed();
  }

  /**
   * Invalidates in this process and in the store. If the store does not confirm, schedules a retry
   * and rejects.
   */
  async #applyOrRetry(names: Names, kind: InvalidationKind): Promise<void> {
    this.#recent.add(names, kind === "soft");
    this.#dropLocal(names);
    try {
      await this.#write(names, kind);
    } catch (error) {
      this.#retryLater(names);
      throw error;
    } finally {
      this.#dropLocal(names);
    }
  }

  /** Drops what this process has in memory. */
  #dropLocal(names: Names): void {
    this.#unleasedLoads.detach(names);
    this.#near?.drop(names);
  }

  async #write({ keys, tags }: Names, kind: InvalidationKind): Promise<void> {
    const { loadTimeoutMs } = this.#settings;
    const results = await Promise.allSettled([
      keys.length === 0 ? undefined : kind === "soft" ? this.#store.softInvalidate(keys) : this.#store.invalidate(keys),
      tags.length === 0 ? undefined : this.#store.invalidateTags(tags, loadTimeoutMs),
    ]);
    const failed = results.find((result) => result.status === "rejected");
    if (failed !== undefined) throw failed.reason as Error;
  }

  /**
   * Stores nothing for `replicaLagMs`: a lagging replica of the database may still return the old
   * value.
   */
  async #holdOff(names: Names): Promise<void> {
    const { replicaLagMs } = this.#settings;
    if (replicaLagMs === 0) return;
    try {
      await this.#store.beginWrite([...names.keys, ...names.tags], newWriterId(), replicaLagMs);
    } catch (error) {
      this.#retryLater(names);
      throw error;
    }
  }

  #retryLater(names: Names, delayMs = RETRY_MS): void {
    this.#unconfirmed.add(names);
    if (this.#unconfirmed.size > 0 && !this.#isClosed)
      this.#retryTimer ??= this.#clock.after(delayMs, () => void this.#retryUnconfirmed());
  }

  async #retryUnconfirmed(): Promise<void> {
    const names = this.#unconfirmed.snapshot();
    try {
      await this.#write(names, "hard");
      await this.#holdOff(names);
      names.confirm();
    } catch {
      // Retried below.
    }
    this.#retryTimer = undefined;
    this.#retryLater({ keys: [], tags: [] });
  }
}

/** Returns the id of one write, 16 bytes. */
const newWriterId = (): string => randomBytes(16).toString("latin1");
