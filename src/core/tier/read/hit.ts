import type { Random } from "../../base/clock.js";
import type { Key } from "../../keys/key.js";
import type { Reading } from "../../store/store.js";
import type { BypassReason } from "../../telemetry/events.js";
import { isDueEarly } from "../entry/freshness.js";
import type { Modes } from "../record/modes.js";
import { type ReadRequest, ReadResult } from "../request/request.js";
import { isPreparedFor, prepareFor, type ServableValue, UNPREPARED, verdictOf } from "../request/verdict.js";
import { TickBatch } from "../tick/tick-batch.js";
import type { HitSamples } from "./hit-samples.js";
import { type HitPath, type Missed, Misses, type MissParts } from "./miss.js";

/** Whether a caller is part of a load, and whether of that of the same key, which it must not wait for. */
export type Nesting = "none" | "own-load" | "other-load";

/** The parts that `Hits` uses. */
export interface HitParts extends MissParts {
  readonly random: Random;
}

/**
 * The path of a hit from top to bottom: the requests of the tick, one store read for all of them, the verdict on each entry, its value.
 * What happens when nothing can be served is in `miss.ts`.
 *
 * All keys requested in one tick, by any request of this process, share one store read. A call made
 * while a read is running belongs to the next one, so its results are never older than the call. All
 * that must be loaded after a read share one round trip for leases.
 */
export class Hits implements HitPath {
  readonly misses: Misses;
  /** Compares some of the hits with their source. Undefined: none. */
  samples: HitSamples | undefined = undefined;
  readonly #parts: HitParts;
  readonly #modes: Modes;
  readonly #reads: TickBatch<ReadRequest, ReadResult>;
  #isClosed = false;

  constructor(parts: HitParts) {
    this.#parts = parts;
    this.#modes = parts.sharedSettings.modes;
    this.#reads = new TickBatch(parts.clock, (requests) => this.#readStore(requests), undefined, parts.longTick);
    this.misses = new Misses(parts, this);
  }

  /** Answers a request, together with all others of the tick. Rejects with an error of the source only. `nesting`: that of the caller. */
  answer(request: ReadRequest, nesting: Nesting): Promise<unknown> {
    const { tracing } = this.#parts.channel;
    if (tracing !== undefined) request.trace = { parent: tracing.active() };
    const mayBypass =
      nesting !== "none" ||
      request.isForced === true ||
      (!this.#modes.isUnrestricted && this.restrictionOf(request.key) !== undefined) ||
      !this.#parts.unconfirmed.allowReads;
    return mayBypass ? this.#answerOrBypass(request) : this.#readAndRespond(request);
  }

  /** The same for a request that may have to bypass the store. */
  #answerOrBypass(request: ReadRequest): Promise<unknown> {
    const reason = this.bypassReasonOf(request);
    if (reason !== undefined) return this.#bypass(request, reason);
    if (request.isForced === true) return this.#pending(request, () => this.misses.force(request));
    return this.#readAndRespond(request);
  }

  /** One promise for each hit: in the asynchronous context of its request, in which a miss loads. */
  #readAndRespond(request: ReadRequest): Promise<unknown> {
    return this.#reads.addThen(request, (readResult) => this.respond(request, readResult));
  }

  /** Reads the store for one request, together with all other calls of the tick. Rejects if the store's `read` does. */
  read(request: ReadRequest): Promise<ReadResult> {
    return this.#reads.add(request);
  }

  /**
   * Reads the keys of the requests of one tick, each once, with one store read. Requests for the same key share a result.
   */
  async #readStore(requests: readonly ReadRequest[]): Promise<readonly ReadResult[]> {
    const { store, clock, invalidations, unconfirmed } = this.#parts;
    const names = new Names();
    const places = requests.map(({ key }) => names.add(key.name));
    const sentAt = clock.now();
    const { changeCount: modeChanges } = this.#modes;
    const read = await store.read(names.names);
    const firstRead = read.readings.find(isRead);
    if (firstRead === undefined) return readResultsOf(places, read.readings, sentAt);
    invalidations.noteTime(firstRead.now);
    const isReady = isPreparedFor(read, this.#parts);
    const isPrepared = isReady || (await prepareFor(read, this.#parts));
    if (isPrepared) invalidations.confirm(sentAt);
    if (isReady) return readResultsOf(places, read.readings, sentAt);
    const results = readResultsOf(places, isPrepared ? read.readings : read.readings.map(() => FAILED), sentAt);
    const mayServe = this.#modes.changeCount === modeChanges && unconfirmed.allowReads;
    return mayServe ? results : this.#withoutRestricted(requests, results);
  }

  /** Keeps requests from being served whose mode has changed while the store was read, and those of which the store has lost an invalidation. */
  #withoutRestricted(requests: readonly ReadRequest[], results: readonly ReadResult[]): readonly ReadResult[] {
    return results.map((readResult, index) => {
      const { key, isObserved, tags } = requests[index] as ReadRequest;
      const isServable = isObserved === true || this.restrictionOf(key) === undefined;
      if (isServable && !this.#parts.unconfirmed.has(key, tags)) return readResult;
      return new ReadResult(FAILED, readResult.sentAt);
    });
  }

  /**
   * Answers a request from its read: serves the value, or resolves the miss. `deadlineAt`: when to stop waiting, if the read was begun
   * before.
   */
  respond(request: ReadRequest, readResult: ReadResult, deadlineAt?: number): unknown {
    const { decoder } = this.#parts;
    const verdict = verdictOf(request, readResult.reading, this.#parts, (entry) =>
      decoder.decodeShared(request, entry, readResult),
    );
    switch (verdict.kind) {
      case "serve":
        return this.#respondServable(request, readResult, verdict, deadlineAt);
      case "load":
        return this.#share(request, readResult, verdict, deadlineAt);
      case "unreadable": {
        const { grantedAt } = verdict.entry;
        return this.#pending(request, () => this.misses.resolveAlone(request, "absent", readResult, grantedAt));
      }
      case "collision":
        return this.#bypass(request, "KEY_COLLISION");
      case "unknown":
        return this.#bypass(request, this.restrictionOf(request.key) ?? "STORE_UNAVAILABLE");
    }
  }

  /** Serves a value, unless the request wants another one than a stale one, or a young one. */
  #respondServable(
    request: ReadRequest,
    readResult: ReadResult,
    value: ServableValue,
    deadlineAt: number | undefined,
  ): unknown {
    const { freshness, entry, isSoft } = value;
    const { now } = readResult.reading as Extract<Reading, { kind: "read" }>;
    const isOld =
      freshness === "fresh" && request.wantsYoung === true && now - entry.grantedAt > entry.freshUntilAt - now;
    const isStale = freshness === "stale-while-revalidate";
    // What a load returns is stored as fresh, so that a soft invalidation of both would never take effect. It gets the stale value only if
    // the source fails.
    if (isOld || (isStale && this.#parts.loads.isEnclosing)) {
      const missed: Missed = { freshness: "stale-if-error", superseded: entry, endsFreshness: isSoft };
      return this.#share(request, readResult, missed, deadlineAt);
    }
    if (isStale && request.policy.refresh === "FOREGROUND") {
      // It is fresh in the store after a soft invalidation, and for a release with a longer `maxAge`.
      const superseded = now < entry.freshUntilAt ? entry : undefined;
      const missed: Missed = { freshness, superseded, endsFreshness: isSoft };
      return this.#share(request, readResult, missed, deadlineAt);
    }
    return this.#serve(request, readResult.sentAt, value, now);
  }

  /** Serves a value, and refreshes it in the background if that is due. */
  #serve(request: ReadRequest, sentAt: number, served: ServableValue, now: number): unknown {
    const { entry, freshness, isSoft, decoded } = served;
    const { value, parts } = decoded;
    const { leases, near, packing, random, responder } = this.#parts;
    leases.noteTags(request, parts.subjects);
    const isFresh = freshness === "fresh";
    const isDue = isFresh && isDueEarly(entry, request.policy, now, random);
    if ((freshness === "stale-while-revalidate" || isDue) && !this.#isClosed)
      this.misses.refresh(request, entry, now, isSoft, this.samples?.ofRefresh(request, served, now - entry.grantedAt));
    else if (this.samples !== undefined) this.samples.offer(request, served, now - entry.grantedAt);
    const outcome = isFresh ? "hit" : freshness === "stale-backoff" ? "staleIfError" : "stale";
    const freshForMs = isFresh ? entry.freshUntilAt - now : 0;
    responder.reportServed(request, outcome, freshForMs, now - entry.grantedAt, parts, decoded.bodyBytes);
    request.ending?.endWith(entry);
    if (isFresh && near !== undefined) {
      const { hint, subjects } = parts;
      const again = (): (() => unknown) => decoded.again(packing);
      near.put(request, entry, { value, hint, subjects, again }, now, sentAt);
    }
    return value;
  }

  #bypass(request: ReadRequest, reason: BypassReason): Promise<unknown> {
    return this.#pending(request, () => this.#parts.responder.bypass(request, reason));
  }

  #share(request: ReadRequest, readResult: ReadResult, missed: Missed, deadlineAt?: number): Promise<unknown> {
    return this.#pending(request, () => this.misses.share(request, readResult, missed, deadlineAt));
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
  bypassReasonOf({ key, tags }: ReadRequest): BypassReason | undefined {
    const restriction = this.#modes.isUnrestricted ? undefined : this.restrictionOf(key);
    if (restriction !== undefined) return restriction;
    const { loads, unconfirmed } = this.#parts;
    const enclosingKeys = loads.enclosingKeys();
    // An empty set would need the hash of the name as well.
    if (enclosingKeys.size > 0 && enclosingKeys.has(key.name)) return "NESTED";
    return unconfirmed.has(key, tags) ? "STORE_UNAVAILABLE" : undefined;
  }

  /** Returns why no request of a field or loader may read the store: the cache is closed, or its mode is not on. */
  restrictionOf({ coordinate }: Key): BypassReason | undefined {
    return this.#isClosed ? "CLOSED" : this.#modes.reasonOf(coordinate);
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Makes all later requests bypass the cache. */
  close(): void {
    this.#isClosed = true;
    this.#modes.close();
  }
}

/** What has to be known could not be read, so no entry can be evaluated. */
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
function readResultsOf(places: readonly number[], readings: readonly Reading[], sentAt: number): readonly ReadResult[] {
  const ofKey: ReadResult[] = [];
  return places.map((place) => {
    const shared = ofKey[place];
    if (shared !== undefined) {
      shared.readersLeft++;
      return shared;
    }
    const readResult = new ReadResult(readings[place] as Reading, sentAt);
    ofKey[place] = readResult;
    return readResult;
  });
}

const isRead = (reading: Reading): reading is Extract<Reading, { kind: "read" }> => reading.kind === "read";
