import { within } from "../../base/clock.js";
import type { Entry } from "../../store/entry.js";
import type { Freshness } from "../entry/freshness.js";
import type { Acquired } from "../lease/leases.js";
import type { ReadRequest, ReadResult, SharedMiss } from "../request/request.js";
import { areSameSubjects } from "../request/served-report.js";
import { Miss, type MissStart, type OpenMisses } from "./miss.js";
import type { ReadParts, ReadPath } from "./read-parts.js";

/**
 * The ways into a miss, when nothing can be served, and the refreshes in the background. Its rounds
 * are in `miss.ts`.
 */
export class Misses {
  readonly #parts: ReadParts;
  readonly #path: ReadPath;
  /** The keys with a background refresh. */
  readonly #refreshing = new Set<string>();
  readonly #open: OpenMisses = { pending: new Set(), waiting: new Map() };

  constructor(parts: ReadParts, path: ReadPath) {
    this.#parts = parts;
    this.#path = path;
  }

  /** The number of readers that wait for a load of this process or another. */
  get waitingReaders(): number {
    return [...this.#open.pending].reduce((sum, { waiters }) => sum + waiters.count, 0);
  }

  /**
   * Misses of the same key in one tick share one lease request, one watch and one wait; each gets a
   * value of its own. So do those of later ticks to which the store has shown the same lease chain.
   * A request inside a load resolves its miss alone, since it has a deadline of its own. So does
   * one that waits for a refresh, since all others are served the stale value.
   *
   * `deadlineAt`: when to stop waiting, if the read was begun before. Rejects with an error of the
   * source only.
   */
  share(request: ReadRequest, readResult: ReadResult, missed: Missed, deadlineAt?: number): Promise<unknown> {
    const { loads } = this.#parts;
    const { freshness, superseded, endsFreshness = false, isForced = false } = missed;
    const { reading } = readResult;
    const read = reading.kind === "read" ? reading : undefined;
    const mayShare = !isForced && freshness !== "stale-while-revalidate" && !loads.isEnclosing;
    const entry = isForced ? undefined : read?.entry;
    const until = deadlineAt ?? this.#deadlineOf(freshness);
    const waiting =
      mayShare && freshness === "pending" ? this.#waitingFor(request, (entry as Entry).gen, until) : undefined;
    const shared = mayShare ? (readResult.miss ?? waiting) : undefined;
    const canShare =
      shared !== undefined &&
      haveSameTags(request, shared) &&
      !shared.waiters.isGone &&
      shared.deadlineAt <= (deadlineAt ?? shared.deadlineAt);
    if (canShare) {
      readResult.miss = shared;
      return shared.answer(request);
    }
    const start: MissStart = {
      freshness,
      entry,
      now: read?.now ?? 0,
      supersededAt: superseded?.grantedAt ?? 0,
      endsFreshness,
      deadlineAt: until,
      open: isForced ? undefined : this.#open,
      // With a stale value to fall back to, it waits on terms of its own.
      isJoinable: mayShare && (freshness === "absent" || freshness === "pending"),
    };
    const miss = new Miss(request, start, this.#parts, this.#path);
    if (mayShare) readResult.miss = miss;
    return miss.answer(request);
  }

  /**
   * Returns the miss of an earlier tick that waits for the load which the store has just shown to
   * this request, by the load's `gen`, at a position that counts for the request. What that miss
   * finds is either the result of this load, or was read after this request had asked.
   */
  #waitingFor({ key }: ReadRequest, gen: string, until: number): Miss | undefined {
    const miss = this.#open.waiting.get(gen);
    if (miss === undefined || miss.request.key.input !== key.input) return undefined;
    return miss.deadlineAt >= until - MAX_EARLIER_RATIO * this.#parts.settings.leaseWaitMs ? miss : undefined;
  }

  /**
   * Loads the value now. The soft invalidation ends the lease of a load that began earlier, and
   * leaves the stored value to be served to others.
   */
  async force(request: ReadRequest): Promise<unknown> {
    const { store, memory, responder, invalidations } = this.#parts;
    const { name } = request.key;
    const isInvalidated = await store.remove([name], { soft: true }).then(
      () => true,
      () => false,
    );
    // Now that no read finds it fresh any more.
    if (request.known !== undefined) memory?.drop(request.known);
    const readResult = await this.#path.readResultOf(request);
    if (!isInvalidated || readResult.reading.kind !== "read") return responder.bypass(request, "STORE_UNAVAILABLE");
    const { entry, now } = readResult.reading;
    const freshness = invalidations.isWritten(request, now) ? "write-in-progress" : "absent";
    const superseded = { grantedAt: entry?.grantedAt ?? 0 };
    return this.share(request, readResult, { freshness, superseded, isForced: true });
  }

  /**
   * Starts a refresh in the background. Each process runs at most one for a key, and none while
   * another process holds the lease.
   */
  refresh(request: ReadRequest, entry: Entry, now: number, endsFreshness: boolean): void {
    const { name } = request.key;
    if (entry.untilAt > now || this.#refreshing.has(name)) return;
    this.#refreshing.add(name);
    void this.#parts.leases
      .acquire({
        request,
        supersededAt: entry.grantedAt,
        endsFreshness,
        isRefresh: true,
        hasValue: true,
      })
      .then((acquired): unknown => {
        if (acquired.kind === "in-flight") return this.#untilTimeout(acquired.inFlight.settled);
        return acquired.kind === "enqueued" ? this.#untilTimeout(acquired.isOver) : undefined;
      })
      .catch(() => false)
      .finally(() => this.#refreshing.delete(name));
  }

  /**
   * Loads and stores the value for a caller who may have it, while the loads of the key fail for
   * others. Their failures say nothing about the key, and each of them takes the lease for a moment
   * (`Settlement.holdMsOf`).
   */
  refill(request: ReadRequest, loadMs: number): void {
    const { clock, leases } = this.#parts;
    const { name } = request.key;
    if (this.#refreshing.has(name)) return;
    this.#refreshing.add(name);
    const acquire = (): Promise<Acquired> =>
      leases.acquire({
        request,
        supersededAt: 0,
        isRefresh: false,
        hasValue: false,
      });
    const refill = async (): Promise<void> => {
      let acquired = await acquire();
      for (let nth = 0; acquired.kind === "uncacheable" && nth < MAX_REFILL_RETRIES; nth++) {
        const holdMs = leases.settlement.holdMsOf(loadMs) * 2 ** nth;
        await new Promise<void>((resolve) => clock.after(holdMs, resolve));
        acquired = await acquire();
      }
      if (acquired.kind === "in-flight") await this.#untilTimeout(acquired.inFlight.settled);
    };
    void refill().finally(() => this.#refreshing.delete(name));
  }

  /** A load or a queue that never settles must not end all refreshes of its key. */
  #untilTimeout(refresh: Promise<unknown>): Promise<unknown> {
    const { clock, settings } = this.#parts;
    return within(clock, refresh, { ms: settings.loadTimeoutMs, otherwise: () => undefined, isUnawaited: true });
  }

  /** Returns when a miss that begins now stops waiting. */
  #deadlineOf(freshness: Freshness): number {
    const { clock, loads, settings } = this.#parts;
    const hasStale = freshness === "stale-while-revalidate" || freshness === "stale-if-error";
    const leaseWaitMs = loads.isEnclosing ? settings.nestedWaitMs : settings.leaseWaitMs;
    return clock.now() + Math.min(leaseWaitMs, hasStale ? (settings.softTimeoutMs ?? leaseWaitMs) : leaseWaitMs);
  }
}

/** Why the value that was shown is not served. */
export interface Missed {
  readonly freshness: Freshness;
  /** Only a value granted later is used. Undefined: any. */
  readonly superseded: Pick<Entry, "grantedAt"> | undefined;
  /** Whether what is stored, or loaded, must not be used. Default: false. */
  readonly isForced?: boolean;
  /** See `AcquireRequest.endsFreshness`. Default: false. */
  readonly endsFreshness?: boolean;
}

/** A hold of milliseconds can last for two seconds on a store whose clock has whole seconds. */
const MAX_REFILL_RETRIES = 6;

/**
 * Part of the wait for a load: a request shares a wait that ends earlier than its own by this much
 * at most.
 */
const MAX_EARLIER_RATIO = 0.25;

/**
 * Whether a miss is resolved by the tags of a request as well: where the key does not decide about
 * them, another one may have others.
 */
const haveSameTags = ({ tags }: ReadRequest, miss: SharedMiss): boolean =>
  !tags.isOwn || areSameSubjects(tags.subjects, miss.request.tags.subjects);
