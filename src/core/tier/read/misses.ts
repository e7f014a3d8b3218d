import { within } from "../../base/clock.js";
import { succeeds } from "../../base/deferred.js";
import { Registry } from "../../base/multimap.js";
import type { Entry } from "../../store/entry.js";
import type { BypassReason } from "../../telemetry/events.js";
import type { Freshness } from "../entry/freshness.js";
import type { LeaseRequest } from "../lease/held-leases.js";
import type { ReadRequest } from "../request/request.js";
import type { Unservable } from "../request/verdict.js";
import { Miss, type MissStart, type OpenMisses, type ReadParts, type ReadPath } from "./miss.js";
import type { Cell } from "./tick.js";

/**
 * The ways into a miss, when nothing can be served, and the refreshes in the background. Its rounds
 * are in `miss.ts`. What they return rejects with an error of the source only.
 */
export class Misses {
  readonly #refreshing = new Set<string>();
  readonly #open: OpenMisses = { begun: 0, pending: new Registry(), waiting: new Registry() };

  constructor(
    private readonly parts: ReadParts,
    private readonly path: ReadPath,
  ) {}

  get waitingReaders(): number {
    return this.#open.pending.values().reduce((sum, { waiters }) => sum + waiters.count, 0);
  }

  bypass(request: ReadRequest, reason: BypassReason): Promise<unknown> {
    return this.#untilAborted(request, () => this.path.responder.bypass(request, reason));
  }

  /**
   * Misses of the same key in one tick share one lease request, one watch and one wait; each gets a
   * value of its own. So do those of later ticks to which the store has shown the same lease chain.
   * A request inside a load resolves its miss alone, since it has a deadline of its own. So does
   * one that waits for a refresh, since all others are served the stale value.
   *
   * `deadlineAt`: when to stop waiting, if the request starts over.
   */
  share(request: ReadRequest, cell: Cell, missed: Unservable, deadlineAt: number | undefined): Promise<unknown> {
    return this.#untilAborted(request, () => this.#missOf(request, cell, missed, deadlineAt).answer(request));
  }

  #missOf(request: ReadRequest, cell: Cell, missed: Unservable, deadlineAt: number | undefined): Miss {
    const { freshness } = missed;
    const { entry, now } = cell.read;
    const canShare = freshness !== "stale-while-revalidate" && !this.parts.loads.isEnclosing;
    const until = deadlineAt ?? this.#deadlineOf(freshness);
    const shared = canShare ? (cell.miss ?? this.#waitingFor(request, freshness, entry, until)) : undefined;
    const isShared =
      shared !== undefined &&
      haveSameTags(request, shared.request) &&
      !shared.waiters.isGone &&
      (deadlineAt === undefined || shared.deadlineAt <= deadlineAt);
    if (isShared) {
      cell.miss = shared;
      return shared;
    }
    // With a stale value to fall back to, it waits on terms of its own.
    const isJoinable = canShare && (freshness === "absent" || freshness === "pending");
    const start: MissStart = { ...missed, entry, now, deadlineAt: until, open: this.#open, isJoinable };
    const miss = new Miss(request, start, this.parts, this.path);
    if (canShare) cell.miss = miss;
    return miss;
  }

  /**
   * Returns the miss of an earlier tick that waits for the load which the store has just shown to
   * this request, by the load's `gen`, at a position that counts for the request. What that miss
   * finds is either the result of this load, or was read after this request had asked.
   */
  #waitingFor({ key }: ReadRequest, freshness: Freshness, entry: Entry | undefined, until: number): Miss | undefined {
    if (freshness !== "pending" || entry === undefined) return undefined;
    const miss = this.#open.waiting.get(entry.gen);
    if (miss === undefined || miss.request.key.input !== key.input) return undefined;
    return miss.deadlineAt >= until - MAX_EARLIER_RATIO * this.parts.settings.leaseWaitMs ? miss : undefined;
  }

  supersede(
    request: ReadRequest,
    now: number,
    superseded: Entry | undefined,
    freshness: Freshness = "absent",
  ): Promise<unknown> {
    const deadlineAt = this.#deadlineOf(freshness);
    const start = { freshness, superseded, entry: undefined, now, deadlineAt, open: undefined, isJoinable: false };
    return this.#untilAborted(request, () => new Miss(request, start, this.parts, this.path).answer(request));
  }

  /** Loads now. The soft invalidation ends the lease, and leaves the value to serve to others. */
  force(request: ReadRequest): Promise<unknown> {
    const { store, memory, invalidations } = this.parts;
    return this.#untilAborted(request, async () => {
      const isInvalidated = await succeeds(store.remove([request.key.name], { soft: true }));
      // Now that no read finds it fresh any more.
      if (request.known !== undefined) memory?.drop(request.known);
      const reading = await this.path.readingOf(request);
      if (!isInvalidated || reading.kind !== "read") return this.path.responder.bypass(request, "STORE_UNAVAILABLE");
      const { entry, now } = reading;
      const freshness = invalidations.isWritten(request, now) ? "write-in-progress" : "absent";
      return this.supersede(request, now, entry, freshness);
    });
  }

  /** Refreshes in the background, once in a process, and not while another one holds the lease. */
  refresh(request: ReadRequest, entry: Entry, now: number, endsFreshness: boolean): void {
    if (entry.untilAt > now) return;
    this.#trace(request);
    this.#inBackground({ request, supersededAt: entry.grantedAt, endsFreshness, isRefresh: true, hasValue: true });
  }

  /**
   * Loads and stores the value for a caller who may have it, while the loads of the key fail for
   * others. Their failures say nothing about the key, and each of them takes the lease for a moment
   * (`Settlement.holdMsOf`). Not for a response: its load is the execution, which has been run.
   */
  refill(request: ReadRequest, loadMs: number): void {
    if (request.key.kind === "response") return;
    // The store was not read: a value that it may have stays if the load fails.
    this.#inBackground({ request, supersededAt: 0, isRefresh: false, hasValue: true }, loadMs);
  }

  /** `loadMs`: with which a lease that others hold is asked for again. */
  #inBackground(leaseRequest: LeaseRequest, loadMs?: number): void {
    const { clock, leases, modes } = this.parts;
    const { name } = leaseRequest.request.key;
    if (modes.isClosed || this.#refreshing.has(name)) return;
    this.#refreshing.add(name);
    const run = async (): Promise<unknown> => {
      let acquired = await leases.acquire(leaseRequest);
      for (let nth = 0; loadMs !== undefined && acquired.kind === "uncacheable" && nth < MAX_REFILL_RETRIES; nth++) {
        const holdMs = leases.settlement.holdMsOf(loadMs) * 2 ** nth;
        await new Promise<void>((resolve) => clock.after(holdMs, resolve));
        acquired = await leases.acquire(leaseRequest);
      }
      if (acquired.kind === "in-flight") return this.#untilTimeout(acquired.inFlight.settled);
      return acquired.kind === "enqueued" ? this.#untilTimeout(acquired.isOver) : undefined;
    };
    const end = (): void => void this.#refreshing.delete(name);
    run().then(end, end);
  }

  /** A load or a queue that never settles must not end all refreshes of its key. */
  #untilTimeout(refresh: Promise<unknown>): Promise<unknown> {
    const { clock, settings } = this.parts;
    return within(clock, refresh, { ms: settings.loadTimeoutMs, otherwise: () => undefined, isUnawaited: true });
  }

  /** Rejects as soon as the caller's request is aborted. What others wait for goes on. */
  #untilAborted(request: ReadRequest, begin: () => Promise<unknown>): Promise<unknown> {
    const { responder } = this.path;
    this.#trace(request);
    const caller = this.parts.loads.callerOf(request);
    if (caller === undefined) return begin();
    if (caller.hasLeft) return responder.respondAborted(request, caller.reason);
    return new Promise((resolve, reject) => {
      const cancel = caller.onLeft(() => resolve(responder.respondAborted(request, caller.reason)));
      void begin()
        .finally(() => {
          cancel();
          if (!caller.hasLeft) caller.answered();
        })
        .then(resolve, reject);
    });
  }

  #trace(request: ReadRequest): void {
    const { tracing } = this.parts.channel;
    if (tracing !== undefined) request.trace ??= { parent: tracing.active() };
  }

  #deadlineOf(freshness: Freshness): number {
    const { clock, loads, settings } = this.parts;
    const hasStale = freshness === "stale-while-revalidate" || freshness === "stale-if-error";
    const leaseWaitMs = loads.isEnclosing ? settings.nestedWaitMs : settings.leaseWaitMs;
    return clock.now() + Math.min(leaseWaitMs, hasStale ? (settings.softTimeoutMs ?? leaseWaitMs) : leaseWaitMs);
  }
}

/** A hold of milliseconds can last for two seconds on a store whose clock has whole seconds. */
const MAX_REFILL_RETRIES = 6;

/** A request shares a wait that ends earlier than its own by this part of it at most. */
const MAX_EARLIER_RATIO = 0.25;

/** Whether requests share a miss. If the key does not decide about the tags, they must be equal. */
const haveSameTags = ({ tags }: ReadRequest, { tags: { subjects } }: ReadRequest): boolean =>
  !tags.isOwn || (tags.subjects.length === subjects.length && tags.subjects.every((one, nth) => one === subjects[nth]));
