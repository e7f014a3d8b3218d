import type { Key } from "../../keys/key.js";
import type { Reading } from "../../store/store.js";
import type { BypassReason } from "../../telemetry/events.js";
import { isDueEarly } from "../entry/freshness.js";
import { hasMoreTags, type ReadRequest, ReadResult } from "../request/request.js";
import { prepareFor, type ServableValue, UNPREPARED, verdictOf } from "../request/verdict.js";
import type { Modes } from "../shared/modes.js";
import { TickBatch } from "../tick/tick-batch.js";
import { type Missed, Misses } from "./misses.js";
import type { ReadParts, ReadPath } from "./read-parts.js";

/**
 * The path of a hit from top to bottom: the requests of the tick, one store read for all of them, the verdict on each entry, its value.
 * What happens when nothing can be served is in `misses.ts`.
 *
 * All keys requested in one tick, by any request of this process, share one store read. A call made
 * while a read is running belongs to the next one, so its results are never older than the call. All
 * that must be loaded after a read share one round trip for leases.
 */
export class Hits implements ReadPath {
  readonly misses: Misses;
  /** The modes in this process. */
  readonly modes: Modes;
  readonly #parts: ReadParts;
  readonly #reads: TickBatch<ReadRequest, ReadResult>;
  #isClosed = false;

  constructor(parts: ReadParts) {
    this.#parts = parts;
    this.modes = parts.modes;
    this.#reads = new TickBatch(parts.clock, (requests) => this.#readStore(requests), parts.longTick);
    this.misses = new Misses(parts, this);
  }

  /** Returns whether the caller of a request is part of a load. */
  nestingOf({ key }: Pick<ReadRequest, "key">): Nesting {
    const { loads } = this.#parts;
    if (!loads.isEnclosing) return "none";
    return loads.enclosingKeys().has(key.name) ? "own-load" : "other-load";
  }

  /** Answers a request, together with all others of the tick. Rejects with an error of the source only. `nesting`: that of the caller. */
  read(request: ReadRequest, nesting: Nesting): Promise<unknown> {
    const { channel, unconfirmed } = this.#parts;
    if (channel.tracing !== undefined) request.trace = { parent: channel.tracing.active() };
    if (nesting !== "none" || request.isForced === true || !this.modes.isUnrestricted || !unconfirmed.allowReads) {
      const reason = this.bypassReasonOf(request);
      if (reason !== undefined) return this.#bypass(request, reason);
      if (request.isForced === true) return this.#pending(request, () => this.misses.force(request));
    }
    // In the asynchronous context of the request, in which a miss loads.
    return this.#reads.addThen(request, (readResult) => this.respond(request, readResult));
  }

  readResultOf(request: ReadRequest): Promise<ReadResult> {
    return this.#reads.add(request);
  }

  /** Reads the keys of the requests of one tick, each once, with one store read. Requests for the same key share a result. */
  async #readStore(requests: readonly ReadRequest[]): Promise<readonly ReadResult[]> {
    const { store, clock, invalidations, unconfirmed } = this.#parts;
    const places = new Map<string, number>();
    for (const { key } of requests) if (!places.has(key.name)) places.set(key.name, places.size);
    const sentAt = clock.now();
    const read = await store.read([...places.keys()]);
    // Without a result, there is nothing to evaluate.
    const first = read.readings.find((reading) => reading.kind === "read");
    if (first !== undefined) invalidations.noteTime(first.now);
    const isReady = first === undefined || invalidations.isAt(read.clock);
    const isPrepared = isReady || (await prepareFor(read, this.#parts));
    if (first !== undefined && isPrepared) invalidations.confirm(sentAt);
    const mayServe = isReady || unconfirmed.allowReads;
    const ofKey: ReadResult[] = [];
    const results: ReadResult[] = [];
    for (const request of requests) {
      const place = places.get(request.key.name) as number;
      const shared = ofKey[place];
      if (shared === undefined) {
        ofKey[place] = new ReadResult(isPrepared ? (read.readings[place] as Reading) : FAILED, sentAt);
      } else {
        shared.readersLeft++;
      }
      const result = ofKey[place] as ReadResult;
      results.push(mayServe || !unconfirmed.has(request.key, request.tags) ? result : new ReadResult(FAILED, sentAt));
    }
    return results;
  }

  /**
   * Answers a request from its read: serves the value, or resolves the miss. `deadlineAt`: when to stop waiting, if the read was begun
   * before.
   */
  respond(request: ReadRequest, readResult: ReadResult, deadlineAt?: number): unknown {
    const verdict = verdictOf(request, readResult.reading, this.#parts, readResult);
    switch (verdict.kind) {
      case "serve":
        return this.#serve(request, readResult, verdict, deadlineAt);
      case "load":
        return this.#share(request, readResult, verdict, deadlineAt);
      case "unreadable":
        return this.#share(request, readResult, { freshness: "absent", superseded: verdict.entry, isForced: true });
      case "collision":
        return this.#bypass(request, "KEY_COLLISION");
      case "unknown":
        return this.#bypass(request, this.restrictionOf(request.key) ?? "STORE_UNAVAILABLE");
    }
  }

  /** Serves a value, and refreshes it in the background if that is due, unless the request wants another one than a stale one. */
  #serve(request: ReadRequest, readResult: ReadResult, served: ServableValue, deadlineAt: number | undefined): unknown {
    const { entry, freshness, isSoft, decoded } = served;
    const { leases, loads, near, packing, random, responder } = this.#parts;
    const { now } = readResult.reading as Extract<Reading, { kind: "read" }>;
    const ageMs = now - entry.grantedAt;
    const isFresh = freshness === "fresh";
    const isStale = freshness === "stale-while-revalidate";
    // What a load returns is stored as fresh, so that a soft invalidation of both would never take effect. It gets the stale value only if
    // the source fails.
    if (isStale && loads.isEnclosing) {
      const missed: Missed = { freshness: "stale-if-error", superseded: entry, endsFreshness: isSoft };
      return this.#share(request, readResult, missed, deadlineAt);
    }
    if (isStale && request.policy.refresh === "FOREGROUND") {
      // It is fresh in the store after a soft invalidation, and for a release with a longer `maxAge`.
      const superseded = now < entry.freshUntilAt ? entry : undefined;
      return this.#share(request, readResult, { freshness, superseded, endsFreshness: isSoft }, deadlineAt);
    }
    const { value, parts } = decoded;
    const { hint, subjects } = parts;
    if (hasMoreTags(request, subjects)) leases.noteTagsOfLoads(request.key.coordinate);
    const isDue = isStale || (isFresh && isDueEarly(entry, request.policy, now, random));
    if (isDue && !this.#isClosed) this.misses.refresh(request, entry, now, isSoft);
    const outcome = isFresh ? "hit" : isStale ? "stale" : "staleIfError";
    // Nobody observes most hits: they are counted, and that is all.
    if (request.onRead === undefined && request.caller === undefined && hint === undefined)
      this.#parts.channel.served(request.key.coordinate, request.key, outcome);
    else responder.reportServed(request, outcome, isFresh ? entry.freshUntilAt - now : 0, ageMs, parts);
    request.ending?.endWith(entry);
    if (isFresh && near !== undefined) {
      const again = (): (() => unknown) => decoded.again(packing);
      near.put(request, entry, { value, hint, subjects, again }, now, readResult.sentAt);
    }
    return value;
  }

  #bypass(request: ReadRequest, reason: BypassReason): Promise<unknown> {
    return this.#pending(request, () => this.#parts.responder.bypass(request, reason));
  }

  #share(request: ReadRequest, readResult: ReadResult, missed: Missed, deadlineAt?: number): Promise<unknown> {
    return this.#pending(request, () => this.misses.share(request, readResult, missed, deadlineAt));
  }

  /** Returns the promise of `begin`, which rejects as soon as the caller's request is aborted. What others wait for goes on. */
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

  bypassReasonOf({ key, tags }: ReadRequest): BypassReason | undefined {
    const restriction = this.modes.isUnrestricted ? undefined : this.restrictionOf(key);
    if (restriction !== undefined) return restriction;
    const { loads, unconfirmed } = this.#parts;
    if (loads.enclosingKeys().has(key.name)) return "NESTED";
    return unconfirmed.has(key, tags) ? "STORE_UNAVAILABLE" : undefined;
  }

  /** Returns why no request of a field or loader may read the store: the cache is closed, or it is off. */
  restrictionOf({ coordinate }: Key): BypassReason | undefined {
    return this.#isClosed ? "CLOSED" : this.modes.isOff(coordinate) ? "MODE_OFF" : undefined;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Makes all later requests bypass the cache. */
  close(): void {
    this.#isClosed = true;
    this.modes.close();
  }
}

/** Whether a caller is part of a load, and whether of that of the same key, which it must not wait for. */
export type Nesting = "none" | "own-load" | "other-load";

/** What has to be known could not be read, so no entry can be evaluated. */
const FAILED: Reading = { kind: "failed", error: new Error(UNPREPARED) };
