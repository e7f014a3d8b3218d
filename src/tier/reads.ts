import type { Random } from "../clock.js";
import type { Key } from "../keys/key.js";
import type { Policy } from "../policy/policy.js";
import type { Entry } from "../store/entry.js";
import type { Reading, StoreRead } from "../store/store.js";
import type { BypassReason } from "../telemetry/events.js";
import type { EnclosingLoad } from "./enclosing-load.js";
import type { DecodedValue } from "./entry-decoder.js";
import {
  type Freshness,
  freshnessOf,
  isDueEarly,
  isServable,
  prepareFor,
  UNPREPARED,
  unservedFreshness,
} from "./freshness.js";
import { Misses, type MissParts } from "./misses.js";
import type { Modes } from "./modes.js";
import type { NearCache, NearNames } from "./near-cache.js";
import type { NearValue } from "./near-entries.js";
import { ObservedReads, type ObservedReadsParts, type ObservedSource } from "./observed-reads.js";
import { type ReadEnding, type ReadReport, type ReadRequest, ReadResult, type ReadStart } from "./request.js";
import { TickBatch } from "./tick-batch.js";
import type { UnconfirmedInvalidations } from "./unconfirmed-invalidations.js";

/** Whether a caller is part of a load, and whether of that of the same key, which it must not wait for. */
export type Nesting = "none" | "own-load" | "other-load";

/** The parts that `Reads` uses. */
export interface ReadsParts extends MissParts, ObservedReadsParts {
  readonly random: Random;
  readonly unconfirmed: UnconfirmedInvalidations;
}

/**
 * Where every read begins, and the path of a hit from top to bottom: the requests of the tick, one
 * store read for all of them, the freshness of each entry, its value. What happens when nothing can
 * be served is in `misses.ts`.
 *
 * All keys requested in one tick, by any request of this process, share one store read. A call made
 * while a read is running belongs to the next one, so its results are never older than the call. All
 * that must be loaded after a read share one round trip for leases.
 */
export class Reads {
  /** The modes in this process. */
  readonly modes: Modes;
  /** Whether there is a near cache. */
  readonly hasNear: boolean;
  readonly #parts: ReadsParts;
  readonly #misses: Misses;
  readonly #observed: ObservedReads;
  readonly #reads: TickBatch<ReadRequest, ReadResult>;
  #isClosed = false;

  constructor(parts: ReadsParts) {
    this.modes = parts.control.modes;
    this.hasNear = parts.near !== undefined;
    this.#parts = parts;
    this.#reads = new TickBatch(parts.clock, (requests) => this.#readStore(requests), undefined, parts.longTick);
    this.#misses = new Misses(parts, {
      read: (request) => this.#readOne(request),
      respond: async (request, readResult, deadlineAt) => this.#respond(request, readResult, deadlineAt),
      bypassReasonOf: (request) => this.#bypassReasonOf(request),
    });
    this.#observed = new ObservedReads(parts, {
      misses: this.#misses,
      read: (request) => this.#readOne(request),
      mayRead: (request) => this.#mayObserve(request),
    });
  }

  /** The number of readers that wait for a load. */
  get waitingReaders(): number {
    return this.#misses.waitingReaders;
  }

  /**
   * Reads a value, together with all others of the tick. Rejects with an error of the source only. `nesting`: that of
   * the caller.
   */
  read(request: ReadRequest, nesting: Nesting): Promise<unknown> {
    const { tracing } = this.#parts.channel;
    if (tracing !== undefined) request.trace = { parent: tracing.active() };
    const mayBypass =
      nesting !== "none" ||
      request.isForced === true ||
      (!this.modes.isUnrestricted && this.#restrictionOf(request.key) !== undefined) ||
      !this.#parts.unconfirmed.allowReads;
    return mayBypass ? this.#readOrBypass(request) : this.#readAndRespond(request);
  }

  /**
   * Answers a request whose mode is `observe` with what `source` returns, and compares it with what the cache would
   * have served. `mayLoad`: whether the cache would load a value, or only look for a fresh one. Rejects as `source` does.
   */
  observe(request: ReadRequest, source: ObservedSource, mayLoad = true): Promise<unknown> {
    return this.#observed.read(request, source, mayLoad);
  }

  async #mayObserve({ key, tags }: ReadRequest): Promise<boolean> {
    const { loads, unconfirmed } = this.#parts;
    return !this.#isClosed && !loads.enclosingKeys().has(key.name) && !unconfirmed.has(key, tags);
  }

  async #readAndRespond(request: ReadRequest): Promise<unknown> {
    return this.#respond(request, await this.#reads.add(request));
  }

  /** The same for a request that may have to bypass the store. */
  async #readOrBypass(request: ReadRequest): Promise<unknown> {
    const reason = this.#bypassReasonOf(request);
    if (reason !== undefined) return this.#bypass(request, reason);
    if (request.isForced === true) return this.#pending(request, () => this.#misses.force(request));
    return this.#readAndRespond(request);
  }

  /** Reads the store for one request, together with all other calls of the tick. Rejects if the store's `read` does. */
  #readOne(request: ReadRequest): Promise<ReadResult> {
    return this.#reads.add(request);
  }

  /**
   * Reads the keys of the requests of one tick, each once, with one store read. Requests for the same key share a result.
   */
  async #readStore(requests: readonly ReadRequest[]): Promise<readonly ReadResult[]> {
    const { store, clock, control, invalidations, near } = this.#parts;
    const names = new Names();
    const places = requests.map(({ key }) => names.add(key.name));
    const start: ReadStart = { sentAt: clock.now(), changeCount: near?.changeCount ?? 0 };
    const { changesReported } = control;
    const { changeCount: modeChanges } = this.modes;
    const read = await store.read(names.names);
    const firstRead = read.readings.find(isRead);
    if (firstRead === undefined) return readResultsOf(places, read.readings, start);
    const isReady = control.isReady(read.controlVersion) && invalidations.isAt(read.clock);
    const keys = isReady ? [] : requests.map(({ key }) => key);
    const isPrepared = isReady || (await prepareFor(read, keys, start.sentAt, this.#parts));
    control.renew(firstRead.now);
    if (isPrepared) control.settle(changesReported);
    const results = readResultsOf(places, isPrepared ? read.readings : unprepared(read), start);
    if (isReady) return results;
    const mayServe = this.modes.changeCount === modeChanges && this.#parts.unconfirmed.allowReads;
    return mayServe ? results : this.#withoutRestricted(requests, results);
  }

  /** Keeps requests from being served whose mode has changed while the store was read, and those of which the store has lost an invalidation. */
  #withoutRestricted(requests: readonly ReadRequest[], results: readonly ReadResult[]): readonly ReadResult[] {
    return results.map((readResult, index) => {
      const { key, isObserved, tags } = requests[index] as ReadRequest;
      const isServable = isObserved === true || this.#restrictionOf(key) === undefined;
      if (isServable && !this.#parts.unconfirmed.has(key, tags)) return readResult;
      return new ReadResult(FAILED, readResult.start);
    });
  }

  /**
   * Answers a request from its read: evaluates the freshness of the entry, decodes and serves it, or
   * resolves the miss. `deadlineAt`: when to stop waiting, if the read was begun before.
   */
  #respond(request: ReadRequest, readResult: ReadResult, deadlineAt?: number): unknown {
    const { responder } = this.#parts;
    const { reading } = readResult;
    const freshness = freshnessOf(request, readResult, this.#parts);
    if (freshness === undefined || reading.kind === "failed")
      return this.#bypass(request, this.#restrictionOf(request.key) ?? "STORE_UNAVAILABLE");
    const { entry, now } = reading;
    if (entry === undefined || !isServable(freshness)) return this.#share(request, readResult, freshness, deadlineAt);
    const decoded = responder.decodeShared(request, entry, readResult);
    if (decoded.kind === "collision") return this.#bypass(request, "KEY_COLLISION");
    if (decoded.kind === "corrupt") return this.#replace(request, readResult, entry);
    const tags = responder.tagsStateOf(request, entry, decoded);
    if (tags === "changed") {
      const { invalidations } = this.#parts;
      const unserved = unservedFreshness(request, entry, "absent", now, invalidations);
      // By the tags known before the load, the store finds out itself that the entry does not count.
      const isKnownToStore = entry.position < invalidations.latestOf(request.tags.subjects);
      return this.#share(request, readResult, unserved, deadlineAt, isKnownToStore ? undefined : entry);
    }
    if (freshness === "fresh" && request.wantsYoung === true && now - entry.grantedAt > entry.freshUntilAt - now)
      return this.#replaceStale(request, readResult, entry, deadlineAt);
    if (freshness === "stale-while-revalidate") {
      if (this.#parts.loads.isEnclosing) return this.#replaceStale(request, readResult, entry, deadlineAt);
      if (request.policy.refresh === "FOREGROUND") return this.#share(request, readResult, freshness, deadlineAt);
    }
    if (freshness === "fresh" && tags === "stale")
      return this.#respondSoftlyInvalidated(request, readResult, entry, now, decoded, deadlineAt);
    const scope = this.#parts.near === undefined ? undefined : this.#parts.control.signatureOf(request.key);
    return this.#serve(request, readResult, freshness, entry, now, decoded, scope);
  }

  #bypass(request: ReadRequest, reason: BypassReason): Promise<unknown> {
    return this.#pending(request, () => this.#parts.responder.bypass(request, reason));
  }

  #share(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    deadlineAt: number | undefined,
    superseded?: Entry,
  ): Promise<unknown> {
    const misses = this.#misses;
    if (this.#parts.loads.callerOf(request) === undefined)
      return misses.share(request, readResult, freshness, deadlineAt, superseded);
    return this.#pending(request, () => misses.share(request, readResult, freshness, deadlineAt, superseded));
  }

  /** Loads the value again that `unusable` should have had. */
  #replace(request: ReadRequest, readResult: ReadResult, unusable: Entry): Promise<unknown> {
    return this.#pending(request, () => this.#misses.resolveAlone(request, "absent", readResult, unusable.grantedAt));
  }

  /** Serves a value that is stale although the store takes it to be fresh, or waits for its refresh. */
  #respondSoftlyInvalidated(
    request: ReadRequest,
    readResult: ReadResult,
    entry: Entry,
    now: number,
    decoded: DecodedValue,
    deadlineAt: number | undefined,
  ): unknown {
    const freshness = "stale-while-revalidate";
    if (this.#parts.loads.isEnclosing) return this.#replaceStale(request, readResult, entry, deadlineAt);
    if (request.policy.refresh === "FOREGROUND") return this.#share(request, readResult, freshness, deadlineAt, entry);
    return this.#serve(request, readResult, freshness, entry, now, decoded, undefined, true);
  }

  /**
   * Waits for the value that replaces a stale one, on behalf of a load: what the load returns is stored as fresh, so that a
   * soft invalidation of both would never take effect. It gets the stale value only if the source fails.
   */
  #replaceStale(
    request: ReadRequest,
    readResult: ReadResult,
    stale: Entry,
    deadlineAt: number | undefined,
  ): Promise<unknown> {
    return this.#share(request, readResult, "stale-if-error", deadlineAt, stale);
  }

  /** Serves a value, and refreshes it in the background if that is due. */
  #serve(
    request: ReadRequest,
    readResult: ReadResult,
    freshness: Freshness,
    entry: Entry,
    now: number,
    decoded: DecodedValue,
    scope: string | undefined,
    isSoftlyInvalidated = false,
  ): unknown {
    const { value, parts } = decoded;
    const { leases, near, packing, random, responder } = this.#parts;
    leases.noteTags(request, parts.subjects);
    const isFresh = freshness === "fresh";
    const isDue = isFresh && isDueEarly(entry, request.policy, now, random);
    if ((freshness === "stale-while-revalidate" || isDue) && !this.#isClosed)
      this.#misses.refresh(request, entry, now, isSoftlyInvalidated);
    const outcome = isFresh ? "hit" : freshness === "stale-backoff" ? "staleIfError" : "stale";
    const freshForMs = isFresh ? entry.freshUntilAt - now : 0;
    responder.reportServed(request, outcome, freshForMs, now - entry.grantedAt, parts, decoded.bodyBytes);
    request.ending?.endWith(entry);
    if (isFresh && near !== undefined) {
      const { hint, subjects } = parts;
      const again = (): (() => unknown) => decoded.again(packing);
      near.put(request, entry, { value, hint, subjects, again }, now, readResult.start, scope);
    }
    return value;
  }

  /** Returns whether values like that of the request have tags derived from them. */
  hasResultTags({ key, tags }: ReadRequest): boolean {
    return tags.subjectsOf !== undefined || this.#parts.leases.isTaggedByLoads(key.coordinate);
  }

  /**
   * Returns the promise of `begin`, which rejects as soon as the caller's request is aborted. What
   * others wait for goes on.
   */
  #pending(request: ReadRequest, begin: () => Promise<unknown>): Promise<unknown> {
    const { loads, responder } = this.#parts;
    const caller = loads.callerOf(request);
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

  /** Returns why a request must not read the store. Undefined if it may. */
  #bypassReasonOf({ key, tags }: ReadRequest): BypassReason | undefined {
    const restriction = this.modes.isUnrestricted ? undefined : this.#restrictionOf(key);
    if (restriction !== undefined) return restriction;
    const { loads, unconfirmed } = this.#parts;
    const enclosingKeys = loads.enclosingKeys();
    // An empty set would need the hash of the name as well.
    if (enclosingKeys.size > 0 && enclosingKeys.has(key.name)) return "NESTED";
    return unconfirmed.has(key, tags) ? "STORE_UNAVAILABLE" : undefined;
  }

  /** Returns why no request of a field or loader may read the store: the cache is closed, or its mode is not on. */
  #restrictionOf({ coordinate }: Key): BypassReason | undefined {
    return this.#isClosed ? "CLOSED" : this.modes.reasonOf(coordinate);
  }

  /**
   * Returns what the near cache has of an entry, synchronously and without a request, for a caller who
   * wants a fresh value. Undefined if the store has to be read.
   */
  near(names: NearNames, policy: Policy): NearValue | undefined {
    const { control, loads, near, unconfirmed } = this.#parts;
    // Nothing is served before the change of the control record has been read.
    if (near === undefined || control.isOutdated) return undefined;
    if (!this.modes.isUnrestricted && this.#restrictionOf(names.key) !== undefined) return undefined;
    // What a load reads is stored with its value, also where nothing is outdated for as long as in a near cache.
    if (loads.isEnclosing || unconfirmed.has(names.key, names.tags)) return undefined;
    return near.get(names, policy, control);
  }

  /** Returns a promise of a value of the near cache, the same for all readers. */
  nearPromise(value: NearValue): Promise<unknown> {
    return (this.#parts.near as NearCache).promiseOf(value);
  }

  /** Returns how a value of the near cache was served. */
  nearReport(value: NearValue, policy: Policy): ReadReport {
    return (this.#parts.near as NearCache).reportOf(value, policy);
  }

  /** Returns whether GraphQL accepts what the near cache has for a request. Forgets and reports it if not. */
  acceptsNear(request: ReadRequest, { value }: NearValue): boolean {
    if (this.#parts.responder.isValid(request, value)) return true;
    this.#parts.near?.changed(request.key.name);
    return false;
  }

  /**
   * Returns the fresh value of a request, read together with all others of the tick. Undefined if
   * there is none; never loads.
   */
  async peek(request: ReadRequest): Promise<unknown> {
    if (this.#bypassReasonOf(request) !== undefined) return undefined;
    const readResult = await this.#readOne(request);
    if (freshnessOf(request, readResult, this.#parts) !== "fresh" || readResult.reading.kind === "failed")
      return undefined;
    const { entry, now } = readResult.reading as { entry: Entry; now: number };
    const decoded = this.#parts.responder.decode(request, entry);
    if (decoded.kind !== "value") return undefined;
    const tags = this.#parts.responder.tagsStateOf(request, entry, decoded);
    if (tags !== "current") return undefined;
    const freshForMs = entry.freshUntilAt - now;
    this.#parts.responder.reportServed(request, "hit", freshForMs, now - entry.grantedAt, decoded, decoded.bodyBytes);
    return decoded.value;
  }

  /**
   * Returns another value for `request`, whose key was read before with `result`, or with what `first` says: a copy, or
   * a value of its own if the value cannot be copied or belongs to the first reader alone.
   */
  readAgain(request: ReadRequest, first: ReadEnding, result: Promise<unknown> | undefined): Promise<unknown> {
    return this.#parts.responder.respondAgain(request, first, result);
  }

  nestingOf({ key }: Pick<ReadRequest, "key">): Nesting {
    const { loads } = this.#parts;
    if (!loads.isEnclosing) return "none";
    return loads.enclosingKeys().has(key.name) ? "own-load" : "other-load";
  }

  /** Returns the load that the caller runs inside of. */
  enclosingLoad(): EnclosingLoad | undefined {
    return this.#parts.loads.enclosing();
  }

  /** See `Misses.refill`. */
  refill(request: ReadRequest, loadMs: number): void {
    if (!this.#isClosed) this.#misses.refill(request, loadMs);
  }

  /** See `Loads.readPrivate`. */
  readPrivate(coordinate: string): void {
    this.#parts.loads.readPrivate(coordinate);
  }

  /** See `Loads.together`. */
  together<T>(loads: readonly EnclosingLoad[], work: () => T): T {
    return this.#parts.loads.together(loads, work);
  }

  /** See `Loads.starts`. */
  get loadStarts(): number {
    return this.#parts.loads.starts;
  }

  /** Keeps the load of `request` from waiting for a slot, since a caller inside another load waits for `read`. */
  expedite({ key }: Pick<ReadRequest, "key">, read: Promise<unknown>): void {
    this.#parts.loads.expedite(key, read);
  }

  /** Makes all later requests bypass the cache. */
  close(): void {
    this.#isClosed = true;
    this.modes.close();
  }
}

/** The control record could not be read, so no entry can be evaluated. */
const FAILED: Reading = { kind: "failed", error: new Error(UNPREPARED) };
/** Names that are read in one tick, each once. */
class Names {
  readonly names: string[] = [];
  readonly #places = new Map<string, number>();

  /** Returns the place of a name in `names`. */
  add(name: string): number {
    const known = this.#places.get(name);
    if (known !== undefined) return known;
    const place = this.names.push(name) - 1;
    this.#places.set(name, place);
    return place;
  }
}

/** Returns the result of each request, by the places of their keys. Requests for the same key share one. */
function readResultsOf(
  places: readonly number[],
  readings: readonly Reading[],
  start: ReadStart,
): readonly ReadResult[] {
  const ofKey: ReadResult[] = [];
  return places.map((place) => {
    const shared = ofKey[place];
    if (shared !== undefined) {
      shared.readersLeft++;
      return shared;
    }
    const readResult = new ReadResult(readings[place] as Reading, start);
    ofKey[place] = readResult;
    return readResult;
  });
}

/** Returns readings of which none can be evaluated. */
const unprepared = ({ readings }: StoreRead): readonly Reading[] => readings.map(() => FAILED);

const isRead = (reading: Reading): reading is Extract<Reading, { kind: "read" }> => reading.kind === "read";
