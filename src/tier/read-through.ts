import type { Clock, Random } from "../clock.js";
import type { Entry } from "../store/entry.js";
import type { Store, TagVersion } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { ControlRecord } from "./control-record.js";
import type { DecodedValue } from "./entry-decoder.js";
import { type Freshness, isDueEarly } from "./freshness.js";
import type { Leases } from "./leases.js";
import type { Loads } from "./loads.js";
import { MissHandler, type MissHandlerParts } from "./miss-handler.js";
import type { NearCache } from "./near-cache.js";
import { freshnessOf, isServable, type ReadResult } from "./read-result.js";
import type { ReadRequest } from "./request.js";
import type { Respond } from "./respond.js";
import type { Responder } from "./responder.js";
import type { TierSettings } from "./settings.js";
import { TickReads } from "./tick-reads.js";
import type { UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";
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
      return pending(reason === undefined ? this.#forceLoad(request) : responder.bypass(request, reason));
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
    const freshness =
      freshnessOf(request, readResult, this.#parts.control) === "write-in-progress" ? "write-in-progress" : "absent";
    return (await this.#resolveMiss(request, freshness, undefined, readResult.tagVersions, entry?.grantedAt ?? 0))(
      request,
    );
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

  #respond(request: ReadRequest, readResult: ReadResult): unknown {
    const { responder } = this.#parts;
    const { reading } = readResult;
    const freshness = freshnessOf(request, readResult, this.#parts.control);
    const scope = this.#parts.control.scopeOf(request.key);
    if (freshness === undefined || reading.kind === "failed")
      return pending(responder.bypass(request, "STORE_UNAVAILABLE"));
    const { entry, now } = reading;
    const waitsForRefresh = freshness === "stale-while-revalidate" && request.policy.refresh === "FOREGROUND";
    if (entry === undefined || !isServable(freshness) || waitsForRefresh)
      return pending(this.#shareMiss(request, readResult, freshness));
    const decoded = responder.decode(request, entry);
    if (decoded.kind === "collision") return pending(responder.bypass(request, "KEY_COLLISION"));
    if (decoded.kind === "corrupt") return pending(this.#reload(request, readResult, entry));
    const { resultTags } = decoded;
    if (resultTags !== undefined && !responder.areTagsKnownToBeCurrent(resultTags, readResult.ahead)) {
      this.#reads.remember(request, resultTags);
      return pending(this.#serveIfCurrent(request, readResult, freshness, entry, now, decoded, scope));
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
    if (!(await this.#parts.responder.areTagsCurrent(decoded.resultTags)))
      return this.#reload(request, readResult, entry);
    return this.#serve(request, readResult, freshness, entry, now, decoded, scope);
  }

  /** Loads the value again: neither the stored one nor an older one can be used. */
  async #reload(request: ReadRequest, { tagVersions }: ReadResult, entry: Entry): Promise<unknown> {
    return (await this.#resolveMiss(request, "absent", undefined, tagVersions, entry.grantedAt))(request);
  }

  /**
   * Misses of the same key in one tick share one lease request, one watch and one wait; each gets a
   * value of its own. A request inside a load resolves its miss alone, since it has a deadline of
   * its own. So does one that waits for a refresh, since all others are served the stale value.
   */
  async #shareMiss(request: ReadRequest, readResult: ReadResult, freshness: Freshness): Promise<unknown> {
    const { loads, responder } = this.#parts;
    const entry = readResult.reading.kind === "read" ? readResult.reading.entry : undefined;
    const begin = async (): Promise<Respond> => {
      if (freshness === "absent" && (await request.mayExist?.()) === false)
        return (sharer) => responder.respondNull(sharer);
      return this.#resolveMiss(request, freshness, entry, readResult.tagVersions, 0);
    };
    if (freshness === "stale-while-revalidate" || loads.enclosingKeys().size > 0) return (await begin())(request);
    readResult.sharedMiss ??= begin();
    return (await readResult.sharedMiss)(request);
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
  async #resolveMiss(
    request: ReadRequest,
    freshness: Freshness,
    entry: Entry | undefined,
    tagVersions: readonly TagVersion[],
    supersededAt: number,
  ): Promise<Respond> {
    const { clock, loads, settings, waiting } = this.#parts;
    const isNested = loads.enclosingKeys().size > 0;
    const hasStale = freshness === "stale-while-revalidate" || freshness === "stale-if-error";
    const leaseWaitMs = isNested ? settings.nestedWaitMs : settings.leaseWaitMs;
    const deadlineAt =
      clock.now() + Math.min(leaseWaitMs, hasStale ? (settings.softTimeoutMs ?? leaseWaitMs) : leaseWaitMs);
    const start = { freshness, entry, tagVersions, supersededAt, deadlineAt, isNested };
    const watch = waiting.watch(request.key.name);
    try {
      return await new MissHandler(request, start, watch, this.#missHandlerParts).run(start);
    } finally {
      watch.end();
    }
  }
}

function pending(promise: Promise<unknown>): Promise<unknown> {
  // Prevents an unhandled rejection before the caller awaits.
  promise.catch(() => undefined);
  return promise;
}
