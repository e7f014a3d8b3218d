import { within } from "../../base/clock.js";
import type { Entry } from "../../store/entry.js";
import type { Store } from "../../store/store.js";
import type { Channel } from "../../telemetry/channel.js";
import type { Freshness } from "../entry/freshness.js";
import type { Acquired } from "../lease/leases.js";
import type { InFlightLoad } from "../lease/load-sharing.js";
import type { NearCache } from "../near/near-cache.js";
import type { HitPath, ReadRequest, ReadResult, SharedMiss } from "../request/request.js";
import { areSameSubjects, reportWait } from "../request/served-report.js";
import type { TierSettings } from "../request/settings.js";
import type { ValueDecoder } from "../request/value-decoder.js";
import type { Unservable } from "../request/verdict.js";
import { type LongTick, SharedOutcome } from "../tick/long-tick.js";
import { Miss, type MissParts, type MissStart, OpenMisses } from "./miss.js";

/**
 * The ways into a miss, when nothing can be served, and the refreshes in the background. Its rounds are in `miss.ts`.
 */
export class Misses {
  readonly #parts: MissesParts;
  readonly #hitPath: HitPath;
  /** The keys with a background refresh. */
  readonly #refreshing = new Set<string>();
  readonly #open = new OpenMisses();

  constructor(parts: MissesParts, hitPath: HitPath) {
    this.#parts = parts;
    this.#hitPath = hitPath;
  }

  /** The number of readers that wait for a load of this process or another. */
  get waitingReaders(): number {
    return [...this.#open.pending].reduce((sum, { waiters }) => sum + waiters.count, 0);
  }

  /**
   * Misses of the same key in one tick share one lease request, one watch and one wait; each gets a
   * value of its own. So do those of later ticks to which the store has shown the same lease chain. A
   * request inside a load resolves its miss alone, since it has a deadline of its own. So does one that
   * waits for a refresh, since all others are served the stale value.
   *
   * `deadlineAt`: when to stop waiting, if the read was begun before. Rejects with an error of the source only.
   */
  async share(request: ReadRequest, readResult: ReadResult, missed: Missed, deadlineAt?: number): Promise<unknown> {
    const { clock, channel, loads, responder } = this.#parts;
    const { freshness } = missed;
    const { reading } = readResult;
    if (reading.kind === "read") request.onMiss?.(reading.entry, reading.now);
    const mayShare = freshness !== "stale-while-revalidate" && !loads.isEnclosing;
    const joined = mayShare ? readResult.joined : undefined;
    const waiting = mayShare && freshness === "pending" ? this.#waitingFor(request, readResult, deadlineAt) : undefined;
    const shared = joined?.miss ?? waiting;
    const canShare =
      shared !== undefined &&
      haveSameTags(request, shared) &&
      !shared.waiters.isGone &&
      shared.deadlineAt <= (deadlineAt ?? shared.deadlineAt);
    const miss = canShare ? shared : this.#begin(request, readResult, missed, mayShare, deadlineAt);
    const joining = joined?.miss === miss ? joined : { miss, askedAt: clock.now() };
    if (mayShare) readResult.joined = joining;
    miss.waiters.add(request.caller);
    // With others: thousands may wait.
    const respond = await miss.outcome.get();
    const { caller } = request;
    reportWait(request, miss.awaited, clock.now() - joining.askedAt, channel);
    return caller?.hasLeft === true ? responder.respondAborted(request, caller.reason) : respond(request);
  }

  /**
   * Returns the miss of an earlier tick that waits for the load which the store has just shown to this
   * request, by the load's `gen`, at a position that counts for the request. What that miss finds is either the
   * result of this load, or was read after this request had asked.
   */
  #waitingFor({ key }: ReadRequest, { reading }: ReadResult, deadlineAt: number | undefined): SharedMiss | undefined {
    const miss = this.#open.waiting.get((reading as { readonly entry: Entry }).entry.gen);
    if (miss === undefined || miss.request.key.input !== key.input) return undefined;
    const until = deadlineAt ?? this.#deadlineOf("pending");
    return miss.deadlineAt >= until - MAX_EARLIER_RATIO * this.#parts.settings.leaseWaitMs ? miss : undefined;
  }

  #begin(
    request: ReadRequest,
    { reading }: ReadResult,
    { freshness, superseded, endsFreshness = false }: Missed,
    mayShare: boolean,
    deadlineAt: number | undefined,
  ): SharedMiss {
    const { longTick } = this.#parts;
    const entry = reading.kind === "read" ? reading.entry : undefined;
    const supersededAt = superseded?.grantedAt ?? 0;
    const until = deadlineAt ?? this.#deadlineOf(freshness);
    // A request inside a load, or with a stale value to fall back to, waits on terms of its own.
    const isJoinable = mayShare && (freshness === "absent" || freshness === "pending");
    const start: MissStart = {
      freshness,
      entry,
      supersededAt,
      endsFreshness,
      deadlineAt: until,
      open: this.#open,
      isJoinable,
    };
    const miss = new Miss(request, start, this.#parts, this.#hitPath);
    miss.outcome = new SharedOutcome(longTick, miss.resolve());
    return miss;
  }

  /** Resolves a miss that no other request shares. */
  async resolveAlone(
    request: ReadRequest,
    freshness: Freshness,
    readResult: ReadResult,
    supersededAt: number,
    entry?: Entry,
  ): Promise<unknown> {
    const { clock, channel } = this.#parts;
    const { reading } = readResult;
    if (reading.kind === "read") request.onMiss?.(reading.entry, reading.now);
    const askedAt = clock.now();
    const start: MissStart = {
      freshness,
      entry,
      supersededAt,
      endsFreshness: false,
      deadlineAt: this.#deadlineOf(freshness),
      open: undefined,
      isJoinable: false,
    };
    const miss = new Miss(request, start, this.#parts, this.#hitPath);
    miss.waiters.add(request.caller);
    const respond = await miss.resolve();
    reportWait(request, miss.awaited, clock.now() - askedAt, channel);
    return respond(request);
  }

  /**
   * Loads the value now. The soft invalidation ends the lease of a load that began earlier, and
   * leaves the stored value to be served to others.
   */
  async force(request: ReadRequest): Promise<unknown> {
    const superseded = await this.supersede(request);
    if (superseded === undefined) return this.#parts.responder.bypass(request, "STORE_UNAVAILABLE");
    const { readResult, isWriting, supersededAt } = superseded;
    return this.resolveAlone(request, isWriting ? "write-in-progress" : "absent", readResult, supersededAt);
  }

  /**
   * Ends the lease of a load that began earlier, by a soft invalidation. Returns what the store then shows: a load
   * that replaces the value has to be newer than `supersededAt`. Undefined if the store does not reply.
   */
  async supersede(
    request: ReadRequest,
  ): Promise<{ readResult: ReadResult; isWriting: boolean; supersededAt: number } | undefined> {
    const { store, near } = this.#parts;
    const { name } = request.key;
    const isInvalidated = await store.softInvalidate([name]).then(
      () => true,
      () => false,
    );
    // Now that no read finds it fresh any more.
    near?.drop(name);
    const readResult = await this.#hitPath.readResultOf(request);
    if (!isInvalidated || readResult.reading.kind !== "read") return undefined;
    const { entry, now } = readResult.reading;
    const isWriting = this.#parts.invalidations.isWritten(request, now);
    return { readResult, isWriting, supersededAt: entry?.grantedAt ?? 0 };
  }

  /**
   * Starts a refresh in the background. Each process runs at most one for a key, and none while
   * another process holds the lease. `onLoad`: called with its load.
   */
  refresh(
    request: ReadRequest,
    entry: Entry,
    now: number,
    endsFreshness: boolean,
    onLoad?: (load: InFlightLoad) => void,
  ): void {
    const { name } = request.key;
    request.onMiss?.(entry, now);
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
        if (acquired.kind === "in-flight") {
          if (acquired.inFlight.request === request) onLoad?.(acquired.inFlight);
          return this.#untilTimeout(acquired.inFlight.settled);
        }
        return acquired.kind === "enqueued" ? this.#untilTimeout(acquired.isOver) : undefined;
      })
      .catch(() => false)
      .finally(() => this.#refreshing.delete(name));
  }

  /**
   * Loads and stores the value for a caller who may have it, while the loads of the key fail for others. Their failures say
   * nothing about the key, and each of them takes the lease for a moment (`Settlement.holdMsOf`).
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
    return within(clock, refresh, { ms: settings.loadTimeoutMs, otherwise: () => undefined });
  }

  /** Returns when a miss that begins now stops waiting. */
  #deadlineOf(freshness: Freshness): number {
    const { clock, loads, settings } = this.#parts;
    const hasStale = freshness === "stale-while-revalidate" || freshness === "stale-if-error";
    const isNested = loads.isEnclosing && loads.enclosing()?.isBuild === false;
    const leaseWaitMs = isNested ? settings.nestedWaitMs : settings.leaseWaitMs;
    return clock.now() + Math.min(leaseWaitMs, hasStale ? (settings.softTimeoutMs ?? leaseWaitMs) : leaseWaitMs);
  }
}

/** The parts that `Misses` uses. */
export interface MissesParts extends MissParts {
  readonly store: Store;
  readonly channel: Channel;
  readonly decoder: ValueDecoder;
  readonly near: NearCache | undefined;
  /** What lease requests and loads are collected in. */
  readonly longTick: LongTick;
  readonly settings: TierSettings;
}

/** Why the value that was shown is not served. */
export interface Missed extends Pick<Unservable, "freshness" | "superseded"> {
  /** See `AcquireRequest.endsFreshness`. Default: false. */
  readonly endsFreshness?: boolean;
}

/** A hold of milliseconds can last for two seconds on a store whose clock has whole seconds. */
const MAX_REFILL_RETRIES = 6;

/** Part of the wait for a load: a request shares a wait that ends earlier than its own by this much at most. */
const MAX_EARLIER_RATIO = 0.25;

/** Whether a miss is resolved by the tags of a request as well: where the key does not decide about them, another one may have others. */
const haveSameTags = ({ tags }: ReadRequest, miss: SharedMiss): boolean =>
  !tags.isOwn || areSameSubjects(tags.subjects, miss.request.tags.subjects);
