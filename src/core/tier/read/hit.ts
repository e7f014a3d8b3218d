import type { Key } from "../../keys/key.js";
import type { Reading } from "../../store/store.js";
import type { BypassReason } from "../../telemetry/events.js";
import { freshEndOf, isDueEarly } from "../entry/freshness.js";
import type { Memory } from "../memory/memory.js";
import type { KnownKey } from "../request/known-key.js";
import type { ReadRequest } from "../request/request.js";
import {
  outcomeOf,
  prepareFor,
  type ServableValue,
  UNPREPARED,
  type Unservable,
  type Verdict,
  verdictOf,
} from "../request/verdict.js";
import type { InvalidationClock } from "../shared/invalidation-clock.js";
import type { Modes } from "../shared/modes.js";
import type { Loads } from "../source/loads.js";
import { PER_TURN } from "../tick/long-tick.js";
import type { ReadParts, ReadPath } from "./miss.js";
import { Misses } from "./misses.js";
import { Responder } from "./responder.js";
import { Cell, Tick } from "./tick.js";

/**
 * The path of a hit from top to bottom: the requests of the tick, one read of the store for all of
 * them, the verdict on each entry, its value. Misses are in `misses.ts`.
 *
 * All keys requested in one tick, by any request of this process, share one read, which shows the
 * head of the invalidation clock. A call made while a read is running belongs to the next one, so
 * its results are never older than the call. What is in memory is not read: the head says whether
 * it counts. All that must be loaded after a read share one round trip for leases.
 */
export class Reads implements ReadPath {
  readonly misses: Misses;
  readonly modes: Modes;
  readonly memory: Memory | undefined;
  readonly loads: Loads;
  readonly responder: Responder;
  readonly invalidations: InvalidationClock;
  /** The next read's number. What it confirms counts for those who began before it was sent. */
  nextRead = 1;
  #tick: Tick | undefined;

  constructor(private readonly parts: ReadParts) {
    this.modes = parts.modes;
    this.memory = parts.memory;
    this.loads = parts.loads;
    this.responder = new Responder(parts, (request, loadMs) => this.misses.refill(request, loadMs));
    this.invalidations = parts.invalidations;
    this.misses = new Misses(parts, this);
  }

  /** Whether nothing forbids to read, and the caller is not part of a load. */
  get isPlain(): boolean {
    const { unconfirmed } = this.parts;
    return this.modes.isUnrestricted && unconfirmed.allowReads && (this.loads.running === 0 || !this.loads.isEnclosing);
  }

  /** Resolves to whether the value in memory counts for a caller who asks now, by the clock. */
  async confirmed(known: KnownKey): Promise<boolean> {
    const { memory } = this;
    if (known.until === 0 || memory === undefined || !this.isPlain) return false;
    if (memory.isLive) return memory.serves(known, this.nextRead);
    const tick = this.#openTick();
    tick.isHeadAwaited = true;
    await tick.ended.promise;
    return memory.serves(known, tick.nth);
  }

  /** Answers with all others of the tick, from memory if it can. To be called if `isPlain`. */
  readKnown(request: KnownRequest): Promise<unknown> {
    const { known } = request;
    const { memory, invalidations } = this;
    if (known.until !== 0 && memory?.isLive === true && memory.serves(known, this.nextRead) && request.acceptsKept())
      return Promise.resolve(request.takeKept());
    const tick = this.#openTick();
    let cell = known.cell as Cell | undefined;
    if (cell?.tick !== tick) {
      // Read with the rest of the tick: read after it, it would be loaded in a batch of its own.
      if (known.until > tick.begunAt && (known.comparedAt === invalidations.changes || memory?.isCurrent(known))) {
        cell = new Cell(tick, known.key, true);
        tick.inMemory.push(known);
      } else cell = tick.cellOf(known.key);
      known.cell = cell;
    }
    const read = cell;
    return read.whenRead(() => this.#respondKnown(request, read));
  }

  #respondKnown(request: KnownRequest, cell: Cell, isAgain = false): unknown {
    const { known } = request;
    const { tick } = cell;
    if (known.cell === cell) known.cell = undefined;
    if (cell.isInMemory) {
      if (this.memory?.serves(known, tick.nth) === true && request.acceptsKept()) return request.takeKept();
      if (tick.isRead) return this.#readAgain(request);
    }
    const verdict = this.#verdictOn(request, cell);
    if (verdict.kind === "serve" && verdict.freshness === "fresh")
      return this.#serve(request, cell, verdict, undefined);
    if (verdict.kind === "load" && tick.isOutrun && !isAgain) return this.#readAgain(request);
    return request.missed(() => this.#respond(request, cell, undefined, verdict));
  }

  #readAgain(request: KnownRequest): Promise<unknown> {
    const cell = this.#openTick().cellOf(request.known.key);
    return cell.whenRead(() => this.#respondKnown(request, cell, true));
  }

  #openTick(): Tick {
    if (this.#tick === undefined) {
      const { clock } = this.parts;
      const tick = new Tick(this.nextRead, clock.now());
      this.#tick = tick;
      clock.afterTick(() => void this.#readTick(tick));
    }
    return this.#tick;
  }

  async #readTick(tick: Tick): Promise<void> {
    this.#tick = undefined;
    this.nextRead++;
    const { store, clock, invalidations, unconfirmed, longTick, memory } = this.parts;
    tick.sentAt = clock.now();
    let read = await store.read([...tick.cells.keys()]);
    // Without a result, there is nothing to evaluate.
    const first = read.readings.find((reading) => reading.kind === "read");
    if (first !== undefined) invalidations.noteTime(first.now);
    let isRead = first !== undefined || read.clock !== undefined || tick.cells.size === 0;
    // What is in memory needs only the head, which other nodes have as well.
    if (!isRead && (tick.isHeadAwaited || tick.inMemory.length > 0) && store.nodeOf !== undefined) {
      const { clock } = await store.read([]);
      read = { ...read, clock };
      isRead = clock !== undefined;
    }
    const isReady = !isRead || invalidations.isAt(read.clock);
    const isPrepared = isReady || (await prepareFor(read, this.parts));
    tick.isRead = isRead && isPrepared;
    if (tick.isRead) invalidations.confirm(tick.sentAt, tick.nth);
    // Thousands of callers continue in turns, by whose end it has been read.
    tick.isOutrun =
      tick.isRead &&
      !isReady &&
      tick.callers <= PER_TURN &&
      tick.inMemory.some((known) => memory?.isCurrent(known) === false);
    tick.mayServe = isReady || unconfirmed.allowReads;
    let nth = 0;
    for (const cell of tick.cells.values()) {
      const reading = read.readings[nth++] as Reading;
      cell.reading = isPrepared ? reading : FAILED;
    }
    tick.end(longTick);
  }

  /** Answers with all others of the tick. Rejects with an error of the source only. */
  read(request: ReadRequest, deadlineAt?: number): Promise<unknown> {
    const reason = this.#bypassReasonOf(request);
    if (reason !== undefined) return this.misses.bypass(request, reason);
    if (request.isForced === true && deadlineAt === undefined) return this.misses.force(request);
    const cell = this.#openTick().cellOf(request.key);
    return cell.whenRead(() => this.#respond(request, cell, deadlineAt));
  }

  readingOf(request: ReadRequest): Promise<Reading> {
    const cell = this.#openTick().cellOf(request.key);
    return cell.whenRead(() => this.#readingIn(request, cell));
  }

  /** Returns the fresh value, read with all others of the tick. Undefined: none. Never loads. */
  async peek(request: ReadRequest): Promise<unknown> {
    if (this.#bypassReasonOf(request) !== undefined) return undefined;
    const reading = await this.readingOf(request);
    const verdict = verdictOf(request, reading, this.parts);
    if (verdict.kind !== "serve" || verdict.freshness !== "fresh" || reading.kind === "failed") return undefined;
    const { entry, decoded } = verdict;
    const { now } = reading;
    const freshForMs = freshEndOf(entry, request.policy, decoded.parts.freshness) - now;
    this.responder.reportServed(request, "hit", freshForMs, now - entry.grantedAt, decoded.parts);
    return decoded.value;
  }

  /** What this process has invalidated meanwhile without a confirmation is not known. */
  #readingIn({ key, tags }: ReadRequest, { tick, reading }: Cell): Reading {
    return tick.mayServe || !this.parts.unconfirmed.has(key, tags) ? reading : FAILED;
  }

  #verdictOn(request: ReadRequest, cell: Cell): Verdict {
    return verdictOf(request, this.#readingIn(request, cell), this.parts, cell.readers > 1 ? cell : undefined);
  }

  #respond(
    request: ReadRequest,
    cell: Cell,
    deadlineAt: number | undefined,
    verdict: Verdict = this.#verdictOn(request, cell),
  ): unknown {
    switch (verdict.kind) {
      case "serve":
        return this.#serve(request, cell, verdict, deadlineAt);
      case "load":
        return this.misses.share(request, cell, verdict, deadlineAt);
      case "unreadable":
        return this.misses.supersede(request, cell.read.now, verdict.entry);
      case "collision":
        return this.misses.bypass(request, "KEY_COLLISION");
      case "unknown":
        return this.misses.bypass(request, this.#restrictionOf(request.key) ?? "STORE_UNAVAILABLE");
    }
  }

  /** Serves a value, and refreshes it if that is due, unless the request wants a fresher one. */
  #serve(request: ReadRequest, cell: Cell, served: ServableValue, deadlineAt: number | undefined): unknown {
    const { entry, freshness, isSoft, decoded } = served;
    const { known, policy } = request;
    const { memory, loads } = this;
    const { now } = cell.read;
    const share = (missed: Unservable): unknown => this.misses.share(request, cell, missed, deadlineAt);
    const isFresh = freshness === "fresh";
    const isStale = freshness === "stale-while-revalidate";
    // What a load returns is stored as fresh, so that a soft invalidation of both would never take
    // effect. It gets the stale value only if the source fails.
    if (isStale && loads.isEnclosing)
      return share({ kind: "load", freshness: "stale-if-error", superseded: entry, endsFreshness: isSoft });
    if (isStale && policy.refresh === "FOREGROUND") {
      // Fresh in the store after a soft invalidation, and for releases with a longer `maxAge`.
      const superseded = now < entry.freshUntilAt ? entry : undefined;
      return share({ kind: "load", freshness, superseded, endsFreshness: isSoft });
    }
    const { value, content, parts } = decoded;
    const { hint, subjects, freshness: own } = parts;
    if (isStale || (isFresh && isDueEarly(entry, policy, now, this.parts.random)))
      this.misses.refresh(request, entry, now, isSoft);
    const freshForMs = isFresh ? freshEndOf(entry, policy, own) - now : 0;
    this.responder.reportServed(request, outcomeOf(freshness, "hit"), freshForMs, now - entry.grantedAt, parts);
    request.ending?.endWith(entry);
    const readAt = cell.tick.sentAt;
    if (!isFresh || memory === undefined || known === undefined) return value;
    // Another reader of the tick has kept it, and this one has a value of its own.
    if (known.kept?.readAt === readAt) return value;
    const isKept = memory.put(known, policy, { entry, value, content, subjects, hint, own, readAt, now });
    return isKept ? memory.take(known) : value;
  }

  #bypassReasonOf({ key, tags }: ReadRequest): BypassReason | undefined {
    const restriction = this.#restrictionOf(key);
    if (restriction !== undefined) return restriction;
    if (this.loads.isInside(key)) return "NESTED";
    return this.parts.unconfirmed.has(key, tags) ? "STORE_UNAVAILABLE" : undefined;
  }

  #restrictionOf({ coordinate }: Key): BypassReason | undefined {
    return this.modes.isClosed ? "CLOSED" : this.modes.isOff(coordinate) ? "MODE_OFF" : undefined;
  }

  /** Returns whether the caller of a request is part of a load. */
  nestingOf({ key }: Pick<ReadRequest, "key">): Nesting {
    const { loads } = this;
    if (!loads.isEnclosing) return "none";
    return loads.isInside(key) ? "own-load" : "other-load";
  }

  /** Returns whether values like that of the request have tags derived from them. */
  hasResultTags({ key, tags }: Pick<ReadRequest, "key" | "tags">): boolean {
    return tags.subjectsOf !== undefined || this.parts.leases.taggedByLoads.has(key.coordinate);
  }
}

export interface KnownRequest extends ReadRequest {
  readonly known: KnownKey;
  acceptsKept(): boolean;
  /** Returns the value in memory for this caller, and reports it. */
  takeKept(): unknown;
  /** Calls `respond` for an answer that is not a fresh value, unless a read of the key is known. */
  missed(respond: () => unknown): unknown;
}

/** Whether a caller is part of a load: of that of the same key, it must not wait for it. */
export type Nesting = "none" | "own-load" | "other-load";

/** What has to be known could not be read, so no entry can be evaluated. */
const FAILED: Reading = { kind: "failed", error: new Error(UNPREPARED) };
