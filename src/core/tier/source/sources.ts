import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { CachedError } from "../../base/errors.js";
import { getOrMake } from "../../base/multimap.js";
import { Breaker, type BreakerStatus } from "../../store/breaker.js";
import type { SourceBatch } from "../request/request.js";
import type { LongTick } from "../tick/long-tick.js";

/**
 * What loads one coordinate, protected: a bulkhead bounds concurrent loads and queues the others,
 * and a circuit breaker, if configured, refuses loads for a while after consecutive failures.
 *
 * Owners, the requests of the server, are admitted in turn, and one has at most half of the slots
 * and of the queue, so that a request with hundreds of loads does not delay others. (P13) The slots
 * that become free in one tick are given away together at its end, so that batches of the source
 * are as large as the bulkhead.
 *
 * A load inside another load needs no slot: the outer load holds one and waits for the inner one,
 * so both could wait forever. For the same reason, a load that waits for a slot is expedited when a
 * reader inside another load waits for its key (`Loads.expedite`).
 *
 * A load that exceeds its time limit gives its slot back, since it may never end. While more than
 * `maxConcurrentLoads` are overdue, new ones are refused, except for one probe every
 * `loadTimeoutMs`; if a load succeeds, the overdue ones are presumed lost.
 *
 * Source: M. Nygard, "Release It!", chapters "Bulkheads" and "Circuit Breaker".
 */
export class Source {
  readonly #breaker: Breaker | undefined;
  #running = 0;
  #waiting = 0;
  /** Those with turns that wait. The one that had a turn last comes last. */
  readonly #queue = new Set<Owner>();
  readonly #owners = new WeakMap<object, Owner>();
  /** The turns that loads of this tick join. A map for each tick: see `Owner`. */
  #joinable: Map<SourceBatch, Turn> | undefined;
  #isAdmitting = false;
  /** For each turn with loads that have exceeded their time limit and still run: how many. */
  readonly #overdue = new Map<Turn, number>();
  /** While too many loads are overdue: when the next one is admitted as a probe. */
  #probeAt = 0;

  constructor(
    private readonly coordinate: string,
    private readonly parts: SourceParts,
  ) {
    const { breakerThreshold } = parts.settings;
    this.#breaker = breakerThreshold === undefined ? undefined : new Breaker(parts.clock, breakerThreshold);
  }

  get status(): SourceStatus {
    return {
      coordinate: this.coordinate,
      running: this.#running,
      queued: this.#waiting,
      overdue: this.#overdue.size,
      breaker: this.#breaker?.status,
    };
  }

  /** Admits a load, to begin at once or when a slot is free. Throws why it must not begin. */
  admit(needsNoSlot: boolean, load: SourceLoad): AdmittedLoad {
    return new AdmittedLoad(
      this,
      (needsNoSlot ? undefined : this.#joinBatch(load.batch)) ?? this.#newTurn(needsNoSlot, load),
    );
  }

  /** Returns a turn of its own for a load. Throws why it must not begin. */
  #newTurn(needsNoSlot: boolean, { batch, owner: of }: SourceLoad): Turn {
    const { clock, longTick, settings } = this.parts;
    const { maxConcurrentLoads, maxQueuedLoads, loadTimeoutMs } = settings;
    if (this.#breaker?.isOpen === true) throw this.refusal(HAVE_FAILED);
    if (this.#overdue.size > maxConcurrentLoads) {
      const now = clock.now();
      if (now < this.#probeAt) throw this.refusal(TOO_MANY_OVERDUE);
      this.#probeAt = now + loadTimeoutMs;
    }
    const owner = of === undefined ? new Owner() : getOrMake(this.#owners, of, () => new Owner());
    // Otherwise, those who wait have all the slots that an owner can have.
    const isQueued =
      !needsNoSlot && (this.#isAdmitting || this.#running >= maxConcurrentLoads || this.#hasItsSlots(owner));
    if (!isQueued) this.checkBreaker();
    else if (this.#waiting >= maxQueuedLoads) throw this.refusal(TOO_MANY);
    else if (owner.waiting.size >= halfOf(maxQueuedLoads)) throw this.refusal(TOO_MANY_OF_ONE);
    if (needsNoSlot) return new Turn(undefined, false);
    const turn = new Turn(owner, isQueued);
    if (isQueued) {
      this.#waiting++;
      owner.waiting.add(turn);
      this.#queue.add(owner);
    } else this.#hold(turn, owner);
    if (batch !== undefined) {
      if (this.#joinable === undefined)
        longTick.afterTick(() => {
          this.#joinable = undefined;
        });
      this.#joinable ??= new Map();
      this.#joinable.set(batch, turn);
    }
    return turn;
  }

  #hasItsSlots(owner: Owner): boolean {
    return owner.running >= halfOf(this.parts.settings.maxConcurrentLoads);
  }

  #hold(turn: Turn, owner: Owner): void {
    turn.hasSlot = true;
    owner.running++;
    this.#running++;
  }

  /** Adds a load to the turn of the same `batch` in this tick. Undefined: none has room. */
  #joinBatch(batch: SourceBatch | undefined): Turn | undefined {
    const turn = batch && this.#joinable?.get(batch);
    if (turn === undefined || turn.members === 0 || turn.joined >= (batch?.maxSize ?? Number.POSITIVE_INFINITY))
      return undefined;
    turn.joined++;
    turn.members++;
    return turn;
  }

  leave(turn: Turn): void {
    turn.members--;
    const { owner } = turn;
    if (turn.members > 0 || owner === undefined) return;
    if (!turn.hasSlot) {
      this.#endWait(turn, owner);
      return;
    }
    turn.hasSlot = false;
    owner.running--;
    this.#running--;
    if (this.#isAdmitting || this.#waiting === 0) return;
    this.#isAdmitting = true;
    this.parts.clock.afterTick(() => this.#admit());
  }

  #endWait(turn: Turn, owner: Owner): void {
    if (!owner.waiting.delete(turn)) return;
    this.#waiting--;
    this.#queue.delete(owner);
    if (owner.waiting.size > 0) this.#queue.add(owner);
  }

  #admit(): void {
    this.#isAdmitting = false;
    const { maxConcurrentLoads } = this.parts.settings;
    while (this.#running < maxConcurrentLoads) {
      const owner = this.#nextOwner();
      const [turn] = owner?.waiting ?? [];
      if (turn === undefined || owner === undefined) return;
      this.#endWait(turn, owner);
      try {
        if (this.#overdue.size > maxConcurrentLoads) throw this.refusal(TOO_MANY_OVERDUE);
        this.checkBreaker();
        this.#hold(turn, owner);
        turn.begun?.resolve();
      } catch (refusal) {
        turn.begun?.reject(refusal);
      }
    }
  }

  /** Passes over owners with all of their slots: there are no more of them than slots. */
  #nextOwner(): Owner | undefined {
    for (const owner of this.#queue) if (!this.#hasItsSlots(owner)) return owner;
    return undefined;
  }

  learn(outcome: CallOutcome, { members }: Turn): void {
    if (outcome.kind === "failed" && outcome.isCallersOwn) {
      // Others of its batch may have called the source.
      if (outcome.isUncalled !== true || members > 1) return;
      this.#breaker?.withdrawn();
      this.#probeAt = 0;
      return;
    }
    if (outcome.kind === "failed" && outcome.isSourceFailure) this.#breaker?.failed();
    else this.#breaker?.succeeded();
    if (outcome.kind === "returned" && this.#overdue.size > this.parts.settings.maxConcurrentLoads)
      this.#overdue.clear();
  }

  /** Gives the slot of a load that has exceeded its time limit back. */
  expire(turn: Turn): void {
    this.#breaker?.failed();
    this.#overdue.set(turn, (this.#overdue.get(turn) ?? 0) + 1);
    const { clock, settings } = this.parts;
    if (this.#overdue.size === settings.maxConcurrentLoads + 1) this.#probeAt = clock.now() + settings.loadTimeoutMs;
    this.leave(turn);
  }

  endOverdue(turn: Turn): void {
    const count = (this.#overdue.get(turn) ?? 0) - 1;
    if (count > 0) this.#overdue.set(turn, count);
    else this.#overdue.delete(turn);
  }

  /** Throws if a turn must not begin now. If it may, an open breaker counts it as its probe. */
  checkBreaker(): void {
    if (this.#breaker?.mayTry() === false) throw this.refusal(HAVE_FAILED);
  }

  refusal(reason: string): CachedError {
    const coordinate = this.coordinate;
    const message = `\`${coordinate}\`: the load was refused: ${reason}; try again in a moment`;
    return new CachedError("CACHED_SOURCE_UNAVAILABLE", message, { coordinate });
  }
}

const HAVE_FAILED = "its last loads have all failed";
const TOO_MANY = "too many loads run or wait (`loads.maxConcurrentLoads`, `loads.maxQueuedLoads`)";
const TOO_MANY_OF_ONE = "too many loads of its request wait (half of `loads.maxQueuedLoads`)";
const TOO_MANY_OVERDUE =
  "too many loads have exceeded `loads.loadTimeoutMs` and still run (`loads.maxConcurrentLoads`)";

const halfOf = (all: number): number => Math.max(1, Math.floor(all / 2));

/**
 * The turns of one request of the server, which is found by a WeakMap and not in a Map, and has no
 * reference to the request: V8 would keep both, and all that they refer to, until its next full
 * garbage collection, even after they were deleted.
 */
class Owner {
  running = 0;
  readonly waiting = new Set<Turn>();
}

/** Of one load, or of those that their source gets as one call. Ends when the last has left. */
class Turn {
  /** Resolves when the loads may run, and rejects if they must not. Undefined: they may run now. */
  readonly begun: Deferred<void> | undefined;
  hasSlot = false;
  /** How many loads have joined, and how many of them have not left. */
  joined = 1;
  members = 1;

  /** `owner`: undefined if it needs no slot. */
  constructor(
    readonly owner: Owner | undefined,
    isQueued: boolean,
  ) {
    this.begun = isQueued ? new Deferred() : undefined;
    this.begun?.promise.catch(() => undefined);
  }
}

export interface SourceParts {
  readonly clock: Clock;
  readonly longTick: LongTick;
  readonly settings: SourceSettings;
}

/** Of one coordinate in this process; a batch counts as one load. */
export interface SourceSettings {
  readonly maxConcurrentLoads: number;
  /** Further loads that would wait for a slot are refused. */
  readonly maxQueuedLoads: number;
  /** After how many consecutive failures loads are refused for a while. Undefined: never. */
  readonly breakerThreshold: number | undefined;
  readonly loadTimeoutMs: number;
}

/** What has come of a load: its value, or why it has failed or was refused. */
export type CallOutcome =
  | { readonly kind: "returned"; readonly value: unknown }
  | {
      readonly kind: "failed";
      readonly error: unknown;
      /** Whether the failure says nothing about the source. */
      readonly isCallersOwn: boolean;
      /** Whether the source is in trouble. */
      readonly isSourceFailure: boolean;
      /** Whether the source was not called. Default: false. */
      readonly isUncalled?: boolean;
    };

interface SourceLoad {
  /** Loads of one tick with the same batch are one call of their source. */
  readonly batch: SourceBatch | undefined;
  /** The request of the server that it belongs to. */
  readonly owner: object | undefined;
}

/** A load with its turn: it begins, and ends or exceeds its time limit. */
export class AdmittedLoad {
  /** Resolves when it may begin, and rejects if it must not. Undefined: it may begin now. */
  readonly begun: Promise<void> | undefined;
  hasBegun = false;
  readonly #mayBegin: Deferred<void> | undefined;
  #isOverdue = false;
  #hasEnded = false;

  constructor(
    private readonly source: Source,
    private turn: Turn,
  ) {
    const { begun } = turn;
    if (begun === undefined) return;
    this.#mayBegin = new Deferred();
    this.begun = this.#mayBegin.promise;
    begun.promise.then(this.#mayBegin.resolve, this.#mayBegin.reject);
  }

  /** To be called once. `outcome`: undefined if it has not begun. */
  end(outcome: CallOutcome | undefined): void {
    this.#hasEnded = true;
    if (this.#isOverdue) {
      this.source.endOverdue(this.turn);
      return;
    }
    if (outcome !== undefined) this.source.learn(outcome, this.turn);
    this.source.leave(this.turn);
  }

  /** Ends its time: the slot is free. It counts as failed, or is refused if it has not begun. */
  expire(): void {
    if (!this.hasBegun) this.#mayBegin?.reject(this.source.refusal(WAITED_TOO_LONG));
    if (!this.hasBegun || this.#isOverdue || this.#hasEnded) return;
    this.#isOverdue = true;
    this.source.expire(this.turn);
  }

  /** Begins the load without a slot, if it waits for one. */
  expedite(): void {
    if (this.hasBegun || this.#hasEnded) return;
    this.source.leave(this.turn);
    this.turn = new Turn(undefined, false);
    try {
      this.source.checkBreaker();
      this.#mayBegin?.resolve();
    } catch (refusal) {
      this.#mayBegin?.reject(refusal);
    }
  }
}

const WAITED_TOO_LONG = "it waited for others until its time was over (`loads.maxConcurrentLoads`)";

export interface SourceStatus {
  readonly coordinate: string;
  readonly running: number;
  readonly queued: number;
  /** Calls that have exceeded their time limit and still run. */
  readonly overdue: number;
  readonly breaker: BreakerStatus | undefined;
}

export const failed = (error: unknown): CallOutcome => ({
  kind: "failed",
  error,
  isCallersOwn: false,
  isSourceFailure: true,
});

export const isRefusal = (error: unknown): boolean =>
  error instanceof CachedError && error.code === "CACHED_SOURCE_UNAVAILABLE";
