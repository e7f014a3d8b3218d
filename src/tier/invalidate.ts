import { randomBytes } from "node:crypto";
import type { Cancel, Clock } from "../clock.js";
import type { Store } from "../store/store.js";
import type { NearCache } from "./near-cache.js";
import type { OutageSharing } from "./outage-sharing.js";
import { RecentInvalidations } from "./recent-invalidations.js";
import type { TierSettings } from "./settings.js";
import type { Names, UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";

/** What could not be invalidated is tried again this often. */
const REPEAT_MS = 250;

/**
 * How an invalidation treats values: `hard` takes them away; `soft` has them served while they are loaded again; `replace` takes them away for
 * a value that is at hand, so that there is nothing to keep from being loaded.
 */
export type InvalidationKind = "hard" | "soft" | "replace";

/** What invalidation is made of. */
export interface InvalidationParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly outageSharing: OutageSharing;
  readonly kept: UnconfirmedInvalidations;
  readonly near: NearCache | undefined;
  readonly settings: TierSettings;
}

/** Invalidates keys and tags, in the store and in this process, and runs writes inside a bracket. */
export class Invalidation {
  readonly #store: Store;
  readonly #clock: Clock;
  readonly #outageSharing: OutageSharing;
  readonly #near: NearCache | undefined;
  readonly #unconfirmed: UnconfirmedInvalidations;
  readonly #recent: RecentInvalidations;
  readonly #settings: TierSettings;
  #repeat: Cancel | undefined;
  #isClosed = false;

  constructor({ store, clock, outageSharing, kept, near, settings }: InvalidationParts) {
    this.#store = store;
    this.#clock = clock;
    this.#outageSharing = outageSharing;
    this.#near = near;
    this.#unconfirmed = kept;
    this.#recent = new RecentInvalidations(clock);
    this.#settings = settings;
  }

  /**
   * Resolves once no reader that starts now can get a value loaded before, except, after a soft one, while the value is loaded again.
   * Errors: `CACHED_STORE_UNAVAILABLE` if the store has not said so; the invalidation is then kept, repeated until it has, and a hard one.
   */
  async run(names: Names, kind: InvalidationKind = "hard"): Promise<void> {
    await this.#applyOrKeep(names, kind);
    if (kind === "hard") await this.#holdOff(names);
  }

  /**
   * Runs `write` while a writeMark stands: what was stored is gone before it begins, and what is loaded during it is not stored, also if this
   * process dies on the way, for `writeGuardMs`. Rejects with the write's own error only; a store that does not answer is no reason not to write.
   */
  async around<T>(names: Names, write: () => T | PromiseLike<T>): Promise<T> {
    const fenced = [...names.keys, ...names.tags];
    const writer = freshWriter();
    await this.#applyOrKeep(names, "hard").catch(() => undefined);
    await this.#store.beginWrite(fenced, writer, this.#settings.writeGuardMs).catch(() => undefined);
    try {
      return await write();
    } finally {
      // Both, and in this order: the writeMark keeps the tags' tagVersions from changing, the note in the record stops storeRequests that began in the bracket.
      await this.#applyOrKeep(names, "hard").catch(() => undefined);
      // The holdOff comes after the bracket, since a bracket that is open would lend it its own, longer time. What is loaded between the two
      // is removed by it.
      await this.#store
        .endWrite(fenced, writer)
        .catch(() => this.#keep(names))
        .then(() => this.#holdOff(names))
        .catch(() => undefined);
    }
  }

  /** The store may have lost writes it had confirmed: what was invalidated lately is invalidated again before it is read from there. */
  replay(): void {
    this.#keep(this.#recent.all(), 0);
  }

  /** Tries what is kept once more. What the store does not take then is lost with this process; ttls bound what comes of it. */
  async close(): Promise<void> {
    this.#isClosed = true;
    this.#repeat?.();
    if (this.#unconfirmed.size > 0) await this.#repeatUnconfirmed();
  }

  /** In this process and in the store. Rejects if the store has not confirmed all of it, which is kept then. */
  async #applyOrKeep(names: Names, kind: InvalidationKind): Promise<void> {
    this.#recent.note(names);
    this.#forget(names);
    try {
      await this.#write(names, kind);
    } catch (error) {
      this.#keep(names);
      throw error;
    } finally {
      this.#forget(names);
    }
  }

  /** What this process has in memory. */
  #forget(names: Names): void {
    this.#outageSharing.detach(names);
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

  /** A copy of the database may lag behind: what is loaded from it now could be old, so it is not stored for a while. */
  async #holdOff(names: Names): Promise<void> {
    const { replicaLagMs } = this.#settings;
    if (replicaLagMs === 0) return;
    try {
      await this.#store.beginWrite([...names.keys, ...names.tags], freshWriter(), replicaLagMs);
    } catch (error) {
      this.#keep(names);
      throw error;
    }
  }

  #keep(names: Names, repeatMs = REPEAT_MS): void {
    this.#unconfirmed.keep(names);
    if (this.#unconfirmed.size > 0 && !this.#isClosed)
      this.#repeat ??= this.#clock.after(repeatMs, () => void this.#repeatUnconfirmed());
  }

  async #repeatUnconfirmed(): Promise<void> {
    const names = this.#unconfirmed.all();
    try {
      await this.#write(names, "hard");
      await this.#holdOff(names);
      names.forget();
    } catch {
      // Tried again below.
    }
    this.#repeat = undefined;
    this.#keep({ keys: [], tags: [] });
  }
}

/** Sixteen characters that name the writer of one bracket. */
const freshWriter = (): string => randomBytes(16).toString("latin1");
