import type { Key } from "../../keys/key.js";
import type { Reading } from "../../store/store.js";
import type { BypassReason } from "../../telemetry/events.js";
import { isDueEarly } from "../entry/freshness.js";
import type { KnownKey } from "../request/known-key.js";
import { hasMoreTags, type ReadRequest, ReadResult } from "../request/request.js";
import { outcomeOf, prepareFor, type ServableValue, UNPREPARED, type Verdict, verdictOf } from "../request/verdict.js";
import type { Modes } from "../shared/modes.js";
import { PER_TURN } from "../tick/long-tick.js";
import { type Missed, Misses } from "./misses.js";
import type { ReadParts, ReadPath } from "./read-parts.js";
import { Cell, Tick } from "./tick.js";

/**
 * The path of a hit from top to bottom: the requests of the tick, one read of the store for all of
 * them, the verdict on each entry, its value. What happens when nothing can be served is in
 * `misses.ts`.
 *
 * All keys requested in one tick, by any request of this process, share one read, which shows the
 * head of the invalidation clock. A call made while a read is running belongs to the next one, so
 * its results are never older than the call. What is in memory is not read: the head says whether
 * it counts. All that must be loaded after a read share one round trip for leases.
 */
export class Hits implements ReadPath {
  readonly misses: Misses;
  /** The modes in this process. */
  readonly modes: Modes;
  /**
   * The number of the next read of the store. What a read has confirmed counts for those who began
   * before it was sent.
   */
  nextRead = 1;
  readonly #parts: ReadParts;
  #tick: Tick | undefined;
  #isClosed = false;

  constructor(parts: ReadParts) {
    this.#parts = parts;
    this.modes = parts.modes;
    this.misses = new Misses(parts, this);
  }

  /** Whether nothing forbids to read, and the caller is not part of a load. */
  get isPlain(): boolean {
    const { unconfirmed, loads } = this.#parts;
    return this.modes.isUnrestricted && unconfirmed.allowReads && (loads.running === 0 || !loads.isEnclosing);
  }

  /**
   * Resolves to whether the value of a key in memory counts for a caller who asks now. It is not
   * read: the head of the clock decides.
   */
  async confirmed(known: KnownKey): Promise<boolean> {
    const { memory } = this.#parts;
    if (known.until === 0 || memory === undefined || !this.isPlain) return false;
    if (memory.isLive) return memory.serves(known, this.nextRead);
    const tick = this.#openTick();
    await tick.ready;
    return memory.serves(known, tick.nth);
  }

  /**
   * Answers a request with a key that is remembered, together with all others of the tick, from
   * memory if it can. To be called if `isPlain`.
   */
  readKnown(request: KnownRequest): Promise<unknown> {
    const { known } = request;
    const { memory, invalidations } = this.#parts;
    if (known.until !== 0 && memory?.isLive === true && memory.serves(known, this.nextRead) && request.acceptsKept())
      return Promise.resolve(request.takeKept());
    const tick = this.#openTick();
    let cell = known.cell as Cell | undefined;
    if (cell?.tick !== tick) {
      // What is known not to count is read with the rest of the tick: read after that, it would be
      // loaded in a batch of its own.
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
    const { memory, channel } = this.#parts;
    if (known.cell === cell) known.cell = undefined;
    if (channel.tracing !== undefined) request.trace = { parent: channel.tracing.active() };
    if (cell.isInMemory) {
      if (memory?.serves(known, cell.tick.nth) === true && request.acceptsKept()) return request.takeKept();
      if (cell.tick.isRead) return this.#readAgain(request);
    }
    const result = cell.tick.mayServe ? cell : this.#resultFor(request, cell);
    if (cell.missed !== undefined) return request.missed(result, cell.missed);
    const verdict = verdictOf(request, result.reading, this.#parts, result);
    if (verdict.kind === "serve" && verdict.freshness === "fresh")
      return this.#serve(request, result, verdict, undefined);
    if (verdict.kind === "load") {
      if (cell.tick.isOutrun && !isAgain) return this.#readAgain(request);
      cell.missed = verdict;
    }
    return request.missed(result, verdict);
  }

  #readAgain(request: KnownRequest): Promise<unknown> {
    const cell = this.#openTick().cellOf(request.known.key);
    return cell.whenRead(() => this.#respondKnown(request, cell, true));
  }

  #openTick(): Tick {
    if (this.#tick === undefined) {
      const tick = new Tick(this.nextRead, this.#parts.clock.now());
      this.#tick = tick;
      this.#parts.clock.afterTick(() => void this.#readTick(tick));
    }
    return this.#tick;
  }

  /** Returns whether the caller of a request is part of a load. */
  nestingOf({ key }: Pick<ReadRequest, "key">): Nesting {
    const { loads } = this.#parts;
    if (!loads.isEnclosing) return "none";
    return loads.enclosingKeys().has(key.name) ? "own-load" : "other-load";
  }

  /**
   * Answers a request, together with all others of the tick. Rejects with an error of the source
   * only. `nesting`: that of the caller.
   */
  read(request: ReadRequest, nesting: Nesting): Promise<unknown> {
    const { channel, unconfirmed } = this.#parts;
    if (channel.tracing !== undefined) request.trace = { parent: channel.tracing.active() };
    if (nesting !== "none" || request.isForced === true || !this.modes.isUnrestricted || !unconfirmed.allowReads) {
      const reason = this.bypassReasonOf(request);
      if (reason !== undefined) return this.#bypass(request, reason);
      if (request.isForced === true) return this.#pending(request, () => this.misses.force(request));
    }
    const cell = this.#openTick().cellOf(request.key);
    return cell.whenRead(() => this.respond(request, this.#resultFor(request, cell)));
  }

  readResultOf(request: ReadRequest): Promise<ReadResult> {
    const cell = this.#openTick().cellOf(request.key);
    return cell.whenRead(() => this.#resultFor(request, cell));
  }

  /**
   * Returns what a request may know of a read: not what this process has invalidated meanwhile
   * without a confirmation.
   */
  #resultFor({ key, tags }: ReadRequest, cell: Cell): ReadResult {
    const { unconfirmed } = this.#parts;
    const mayServe = cell.tick.mayServe || !unconfirmed.has(key, tags);
    return mayServe ? cell : new ReadResult(FAILED, cell.sentAt);
  }

  /** Reads the keys of one tick, each once, with one read of the store. */
  async #readTick(tick: Tick): Promise<void> {
    this.#tick = undefined;
    this.nextRead++;
    const { store, clock, invalidations, unconfirmed, longTick, memory } = this.#parts;
    const sentAt = clock.now();
    const read = await store.read([...tick.cells.keys()]);
    // Without a result, there is nothing to evaluate.
    const first = read.readings.find((reading) => reading.kind === "read");
    if (first !== undefined) invalidations.noteTime(first.now);
    const isRead = first !== undefined || tick.cells.size === 0;
    const isReady = !isRead || invalidations.isAt(read.clock);
    const isPrepared = isReady || (await prepareFor(read, this.#parts));
    tick.isRead = isRead && isPrepared;
    if (tick.isRead) invalidations.confirm(sentAt, tick.nth);
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
      cell.sentAt = sentAt;
      cell.reading = isPrepared ? reading : FAILED;
    }
    tick.divide(longTick);
    tick.resolve();
  }

  /**
   * Answers a request from its read: serves the value, or resolves the miss. `deadlineAt`: when to
   * stop waiting, if the read was begun before.
   */
  respond(
    request: ReadRequest,
    readResult: ReadResult,
    deadlineAt?: number,
    verdict: Verdict = verdictOf(request, readResult.reading, this.#parts, readResult),
  ): unknown {
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

  /**
   * Serves a value, and refreshes it in the background if that is due, unless the request wants
   * another one than a stale one.
   */
  #serve(request: ReadRequest, readResult: ReadResult, served: ServableValue, deadlineAt: number | undefined): unknown {
    const { entry, freshness, isSoft, decoded } = served;
    const { leases, loads, memory, random, responder } = this.#parts;
    const { now } = readResult.reading as Extract<Reading, { kind: "read" }>;
    const ageMs = now - entry.grantedAt;
    const isFresh = freshness === "fresh";
    const isStale = freshness === "stale-while-revalidate";
    // What a load returns is stored as fresh, so that a soft invalidation of both would never take
    // effect. It gets the stale value only if the source fails.
    if (isStale && loads.isEnclosing) {
      const missed: Missed = { freshness: "stale-if-error", superseded: entry, endsFreshness: isSoft };
      return this.#share(request, readResult, missed, deadlineAt);
    }
    if (isStale && request.policy.refresh === "FOREGROUND") {
      // It is fresh in the store after a soft invalidation, and for a release with a longer
      // `maxAge`.
      const superseded = now < entry.freshUntilAt ? entry : undefined;
      return this.#share(request, readResult, { freshness, superseded, endsFreshness: isSoft }, deadlineAt);
    }
    const { value, parts } = decoded;
    const { hint, subjects } = parts;
    if (hasMoreTags(request, subjects)) leases.taggedByLoads.add(request.key.coordinate);
    const isDue = isStale || (isFresh && isDueEarly(entry, request.policy, now, random));
    if (isDue && !this.#isClosed) this.misses.refresh(request, entry, now, isSoft);
    const outcome = outcomeOf(freshness, "hit");
    // Nobody observes most hits: they are counted, and that is all.
    if (request.onRead === undefined && request.caller === undefined && hint === undefined)
      this.#parts.channel.served(request.key.coordinate, request.key, outcome);
    else responder.reportServed(request, outcome, isFresh ? entry.freshUntilAt - now : 0, ageMs, parts);
    request.ending?.endWith(entry);
    const { known } = request;
    if (!isFresh || memory === undefined || known === undefined) return value;
    const { sentAt: readAt } = readResult;
    // Another reader of the tick has kept it, and this one has a value of its own.
    if (known.kept?.readAt === readAt) return value;
    return memory.put(known, request.policy, { entry, value, content: decoded.content, subjects, hint, readAt, now });
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

  bypassReasonOf({ key, tags }: ReadRequest): BypassReason | undefined {
    const restriction = this.modes.isUnrestricted ? undefined : this.restrictionOf(key);
    if (restriction !== undefined) return restriction;
    const { loads, unconfirmed } = this.#parts;
    if (loads.enclosingKeys().has(key.name)) return "NESTED";
    return unconfirmed.has(key, tags) ? "STORE_UNAVAILABLE" : undefined;
  }

  /**
   * Returns why no request of a field or loader may read the store: the cache is closed, or it is
   * off.
   */
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

/** A request with a key that is remembered. */
export interface KnownRequest extends ReadRequest {
  readonly known: KnownKey;
  /** Whether GraphQL accepts the value in memory. */
  acceptsKept(): boolean;
  /** Returns the value in memory for this caller, and reports it. */
  takeKept(): unknown;
  /** Answers from what was read, which is not a fresh value. */
  missed(result: ReadResult, verdict: Verdict): unknown;
}

/**
 * Whether a caller is part of a load, and whether of that of the same key, which it must not wait
 * for.
 */
export type Nesting = "none" | "own-load" | "other-load";

/** What has to be known could not be read, so no entry can be evaluated. */
const FAILED: Reading = { kind: "failed", error: new Error(UNPREPARED) };
