import type { Clock, Random } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Store, TagVersion } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { ControlRecord } from "./control-record.js";
import type { DecodedValue } from "./entry-decoder.js";
import { type Freshness, isDueEarly } from "./freshness.js";
import type { Leases } from "./leases.js";
import type { Loads } from "./loads.js";
import { MissHandler, type MissHandlerParts, type MissStart } from "./miss-handler.js";
import type { NearCache } from "./near-cache.js";
import { freshnessOf, isServable, type ReadResult, type SharedMiss } from "./read-result.js";
import type { ReadRequest } from "./request.js";
import type { Respond } from "./respond.js";
import type { Responder } from "./responder.js";
import type { TierSettings } from "./settings.js";
import { TickReads } from "./tick-reads.js";
import type { UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";
import { Waiters } from "./waiters.js";
import type { Waiting } from "./waiting.js";

/** The parts that `ReadThrough` uses. */
export interface ReadThroughParts {
  readonly store: Store;
  readonly control: ControlRecord;
  readonly clock: Clock;
  readonly random: Random;
  readonly loads: Loads;
  readonly leases: Leases;
  readonly responder: Responder;
  readonly waiting: Waiting;
  readonly unconfirmed: UnconfirmedInvalidations;
  readonly near: NearCache | undefined;
  readonly settings: TierSettings;
}

/**
 * Where every read begins: read, evaluate the freshness, then serve the entry, or resolve the miss
 * (lease, load and store, or wait).
 *
 * All keys requested in one tick, by any request of this process, share one store read. All that
 * must be loaded after it share one round trip for leases.
 */
export class ReadThrough {
  readonly #parts: ReadThroughParts;
  readonly #missHandlerParts: MissHandlerParts;
  readonly #reads: TickReads;
  readonly #refreshing = new Set<string>();
  #isClosed = false;

  constructor(parts: ReadThroughParts) {
    this.#parts = parts;
    this.#reads = new TickReads(
      parts.store,
      parts.clock,
      parts.control,
      () => parts.near?.changeCount ?? 0,
      parts.settings,
    );
    const { clock, control, leases, responder } = parts;
    this.#missHandlerParts = {
      clock,
      control,
      leases,
      responder,
      readAgain: async (request) => (await this.#reads.read([request]))[0] as ReadResult,
      startOver: (request, deadlineAt) => this.#startOver(request, deadlineAt),
    };
  }

  /**
   * Resolves after one store read with results in the order and length of `requests`: a value, or a
   * promise where a value has to be loaded, so that hits never wait for loads. Never rejects; the
   * promises reject with errors of the source only.
   */
  async readMany(requests: readonly ReadRequest[]): Promise<readonly unknown[]> {
    const { unconfirmed, loads, responder } = this.#parts;
    if (unconfirmed.doubt !== undefined) await unconfirmed.doubt;
    const isForced = requests.some((request) => request.isForced === true);
    if (!this.#isClosed && !isForced && unconfirmed.size === 0 && loads.enclosingKeys().size === 0) {
      const readResults = await this.#reads.read(requests);
      return requests.map((request, index) => this.#respond(request, readResults[index] as ReadResult));
    }
    const bypassReasons = requests.map((request) => this.#bypassReasonOf(request));
    const isRead = (request: ReadRequest, index: number): boolean =>
      bypassReasons[index] === undefined && request.isForced !== true;
    const readResults = await this.#reads.read(requests.filter(isRead));
    let nextResult = 0;
    return requests.map((request, index) => {
      if (isRead(request, index)) return this.#respond(request, readResults[nextResult++] as ReadResult);
      const reason = bypassReasons[index];
      return this.#pending(request, () =>
        reason === undefined ? this.#forceLoad(request) : responder.bypass(request, reason),
      );
    });
  }

  /**
   * Loads the value now. The soft invalidation ends the lease of a load that began earlier, and
   * leaves the stored value to be served to others.
   */
  async #forceLoad(request: ReadRequest): Promise<unknown> {
    const { store, control, near, responder } = this.#parts;
    // Another release must not go on to serve the old value.
    const { names } = control.placesOf([request.key]);
    for (const name of names) near?.changed(name);
    const isInvalidated = await store.softInvalidate(names).then(
      () => true,
      () => false,
    );
    const [readResult] = await this.#reads.read([request]);
    if (!isInvalidated || readResult?.reading.kind !== "read") return responder.bypass(request, "STORE_UNAVAILABLE");
    const { entry } = readResult.reading;
    const isWriting = freshnessOf(request, readResult, control) === "write-in-progress";
    return this.#resolveAlone(request, isWriting ? "write-in-progress" : "absent", readResult, entry?.grantedAt ?? 0);
  }

  /** Returns why a request must not read the store. Undefined if it may. */
  #bypassReasonOf({ key, tags }: ReadRequest): BypassReason | undefined {
    if (this.#isClosed) return "CLOSED";
    if (this.#parts.loads.enclosingKeys().has(key.name)) return "NESTED";
    return this.#parts.unconfirmed.has(key, tags.names) ? "STORE_UNAVAILABLE" : undefined;
  }

  /**
   * Returns another value for `request`, which has the key of `first`, whose read ends with `result`:
   * a copy, or a value of its own if the value cannot be copied or belongs to `first` alone.
   */
  readAgain(request: ReadRequest, first: ReadRequest, result: Promise<unknown> | undefined): Promise<unknown> {
    return this.#parts.responder.respondAgain(request, first, result);
  }

  /** Returns whether the caller is part of a load of the same key, so that it must not wait for it. */
  isInsideOwnLoad({ key }: ReadRequest): boolean {
    return this.#parts.loads.enclosingKeys().has(key.name);
  }

  /** Whether there is a near cache. */
  get hasNear(): boolean {
    return this.#parts.near !== undefined;
  }

  /**
   * Returns the value of a request from the near cache, synchronously. Undefined if the store has
   * to be read.
   */
  near(request: ReadRequest): { readonly value: unknown } | undefined {
    const { control, near, responder } = this.#parts;
    if (near === undefined || request.isForced === true || this.#bypassReasonOf(request) !== undefined)
      return undefined;
    // Nothing is served before the change of the control record has been read.
    if (control.isOutdated) return undefined;
    const hit = near.get(request, control.scopeOf(request.key));
    if (hit !== undefined && !responder.isValid(request, hit.value)) {
      near.changed(request.key.name);
      return undefined;
    }
    if (hit !== undefined) responder.reportServed(request, "hit", hit.freshForMs, hit.ageMs, hit.hint);
    return hit;
  }

  /**
   * Returns the fresh value of a request, read together with all others of the tick. Undefined if
   * there is none; never loads.
   */
  async peek(request: ReadRequest): Promise<unknown> {
    if (this.#parts.unconfirmed.doubt !== undefined) await this.#parts.unconfirmed.doubt;
    if (this.#bypassReasonOf(request) !== undefined) return undefined;
    const [readResult] = (await this.#reads.read([request])) as [ReadResult];
    if (freshnessOf(request, readResult, this.#parts.control) !== "fresh" || readResult.reading.kind === "failed")
      return undefined;
    const { entry, now } = readResult.reading as { entry: Entry; now: number };
    const decoded = this.#parts.responder.decode(request, entry);
    if (decoded.kind !== "value" || decoded.resultTags !== undefined) return undefined;
    this.#parts.responder.reportServed(request, "hit", entry.freshUntilAt - now, now - entry.grantedAt);
    return decoded.value;
  }

  /** Makes all later requests bypass the cache. */
  close(): void {
    this.#isClosed = true;
  }

  /**
   * Reads and responds again, together with all others that shared the miss: the load failed with what
   * concerns its own caller only.
   */
  async #startOver(request: ReadRequest, deadlineAt: number): Promise<unknown> {
    const reason = this.#bypassReasonOf(request);
    if (reason !== undefined) return this.#parts.responder.bypass(request, reason);
    const [readResult] = (await this.#reads.read([request])) as [ReadResult];
    return this.#respond(request, readResult, deadlineAt);
  }

  /**
   * Returns the promise of `begin`, which rejects as soon as the caller's request is aborted. What
   * others wait for goes on.
   */
  #pending(request: ReadRequest, begin: () => Promise<unknown>): Promise<unknown> {
    const { loads, responder } = this.#parts;
    const caller = loads.callerOf(request);
    if (caller === undefined) return handled(begin());
    if (caller.hasLeft) return handled(responder.respondAborted(request, caller.reason));
    return handled(
      new Promise((resolve, reject) => {
        const cancel = caller.onLeft(() => resolve(responder.respondAborted(request, caller.reason)));
        void begin()
          .finally(() => {
            cancel();
            if (!caller.hasLeft) caller.answered();
          })
          .then(resolve, reject);
      }),
    );
  }

  /** `deadlineAt`: when to stop waiting, if the read was begun before. */
  #respond(request: ReadRequest, readResult: ReadResult, deadlineAt?: number): unknown {
    const { responder } = this.#parts;
    const { reading } = readResult;
    const freshness = freshnessOf(request, readResult, this.#parts.control);
    const scope = this.#parts.control.scopeOf(request.key);
    if (freshness === undefined || reading.kind === "failed")
      return this.#pending(request, () => responder.bypass(request, "STORE_UNAVAILABLE"));
    const { entry, now } = reading;
    const waitsForRefresh = freshness === "stale-while-revalidate" && request.policy.refresh === "FOREGROUND";
    if (entry === undefined || !isServable(freshness) || waitsForRefresh)
      return this.#pending(request, () => this.#shareMiss(request, readResult, freshness, deadlineAt));
    const decoded = responder.decode(request, entry);
    if (decoded.kind === "collision") return this.#pending(request, () => responder.bypass(request, "KEY_COLLISION"));
    if (decoded.kind === "corrupt")
      return this.#pending(request, () => this.#resolveAlone(request, "absent", readResult, entry.grantedAt));
    const { resultTags } = decoded;
    if (resultTags !== undefined && !responder.areTagsKnownToBeCurrent(resultTags, readResult.ahead)) {
      this.#reads.remember(request, resultTags);
      return this.#pending(request, () =>
        this.#serveIfCurrent(request, readResult, freshness, entry, now, decoded, scope),
      );
    }
    const value = this.#serve(request, readResult, freshness, entry, now, decoded, scope);
    // DataLoader treats an Error among its results as a failure, but not a promise of one.
    return value instanceof Error ? Promise.resolve(value) : value;
  }

  /**
   * Serves a value with tags derived from its result, unless one of them has been invalidated. `scope`
   * is the one under which the entry was judged.
   */
  async #serveIfCurrent(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    entry: Entry,
    now: number,
    decoded: DecodedValue,
    scope: string | undefined,
  ): Promise<unknown> {
    // Loads the value again: neither the stored one nor an older one can be used.
    if (!(await this.#parts.responder.areTagsCurrent(decoded.resultTags)))
      return this.#resolveAlone(request, "absent", readResult, entry.grantedAt);
    return this.#serve(request, readResult, freshness, entry, now, decoded, scope);
  }

  /** Resolves a miss that no other request shares. */
  async #resolveAlone(
    request: ReadRequest,
    freshness: Freshness,
    { tagVersions }: ReadResult,
    supersededAt: number,
    entry?: Entry,
  ): Promise<unknown> {
    const waiters = Waiters.of(request.caller);
    const deadlineAt = this.#deadlineOf(freshness);
    const start = { freshness, entry, tagVersions, supersededAt, deadlineAt, waiters };
    return (await this.#resolveMiss(request, start))(request);
  }

  /**
   * Misses of the same key in one tick share one lease request, one watch and one wait; each gets a
   * value of its own. A request inside a load resolves its miss alone, since it has a deadline of
   * its own. So does one that waits for a refresh, since all others are served the stale value.
   */
  async #shareMiss(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    deadlineAt: number | undefined,
  ): Promise<unknown> {
    const { loads, responder } = this.#parts;
    const { caller } = request;
    const begin = (): SharedMiss => {
      const { reading, tagVersions } = readResult;
      const entry = reading.kind === "read" ? reading.entry : undefined;
      const waiters = new Waiters();
      const start = { freshness, entry, tagVersions, supersededAt: 0, waiters };
      const until = deadlineAt ?? this.#deadlineOf(freshness);
      const resolve = async (): Promise<Respond> => {
        if (freshness === "absent" && (await request.mayExist?.()) === false)
          return (sharer) => responder.respondNull(sharer);
        return this.#resolveMiss(request, { ...start, deadlineAt: until });
      };
      return { waiters, deadlineAt: until, outcome: resolve() };
    };
    let miss: SharedMiss;
    if (freshness === "stale-while-revalidate" || loads.enclosingKeys().size > 0) miss = begin();
    else {
      const shared = readResult.sharedMiss;
      const canShare =
        shared !== undefined && !shared.waiters.isGone && shared.deadlineAt <= (deadlineAt ?? shared.deadlineAt);
      miss = canShare ? shared : begin();
      readResult.sharedMiss = miss;
    }
    miss.waiters.add(caller);
    const respond = await miss.outcome;
    if (caller?.hasLeft === true) return responder.respondAborted(request, caller.reason);
    return respond(request);
  }

  #serve(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    entry: Entry,
    now: number,
    { value, resultTags, hint }: DecodedValue,
    scope: string | undefined,
  ): unknown {
    const { near, random, responder } = this.#parts;
    const isFresh = freshness === "fresh";
    const isDue = isFresh && isDueEarly(entry, request.policy, now, random);
    if (freshness === "stale-while-revalidate" || isDue) this.#refresh(request, entry, now, readResult.tagVersions);
    const outcome = isFresh ? "hit" : freshness === "stale-backoff" ? "staleIfError" : "stale";
    responder.reportServed(request, outcome, isFresh ? entry.freshUntilAt - now : 0, now - entry.grantedAt, hint);
    request.origin = entry;
    if (isFresh) {
      const { tagVersions, changeCount } = readResult;
      near?.put(request, entry, { value, hint, resultTags, tagVersions }, now, changeCount, scope);
    }
    return value;
  }

  /**
   * Starts a refresh in the background. Each process runs at most one for a key, and none while
   * another process holds the lease.
   */
  #refresh(request: ReadRequest, entry: Entry, now: number, tagVersions: readonly TagVersion[]): void {
    const { name } = request.key;
    if (entry.untilAt > now || this.#refreshing.has(name) || this.#isClosed) return;
    this.#refreshing.add(name);
    void this.#parts.leases
      .acquire({ request, tagVersions, supersededAt: entry.grantedAt, isRefresh: true })
      .then((acquired): unknown => {
        if (acquired.kind === "in-flight") return acquired.inFlight.stored;
        return acquired.kind === "enqueued" ? acquired.isOver : undefined;
      })
      .catch(() => false)
      .finally(() => this.#refreshing.delete(name));
  }

  /**
   * Resolves a miss from what the read has shown. Watches the key before any lease is requested.
   */
  async #resolveMiss(request: ReadRequest, start: Omit<MissStart, "isNested">): Promise<Respond> {
    const { loads, waiting } = this.#parts;
    const isNested = loads.enclosingKeys().size > 0;
    const watch = waiting.watch(request.key.name);
    try {
      return await new MissHandler(request, { ...start, isNested }, watch, this.#missHandlerParts).run(start);
    } finally {
      watch.end();
      start.waiters.end();
    }
  }

  /** Returns when a miss that begins now stops waiting. */
  #deadlineOf(freshness: Freshness): number {
    const { clock, loads, settings } = this.#parts;
    const hasStale = freshness === "stale-while-revalidate" || freshness === "stale-if-error";
    const leaseWaitMs = loads.enclosingKeys().size > 0 ? settings.nestedWaitMs : settings.leaseWaitMs;
    return clock.now() + Math.min(leaseWaitMs, hasStale ? (settings.softTimeoutMs ?? leaseWaitMs) : leaseWaitMs);
  }
}

function handled(promise: Promise<unknown>): Promise<unknown> {
  // Prevents an unhandled rejection before the caller awaits.
  promise.catch(() => undefined);
  return promise;
}
