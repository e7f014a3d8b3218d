import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { CachedError } from "../../base/errors.js";
import { Breaker, type BreakerStatus } from "../../store/breaker.js";
import type { SourceBatch } from "../request/request.js";
import type { LongTick } from "../tick/long-tick.js";

/**
 * Protects the sources of loads, separately for each coordinate: a bulkhead bounds concurrent loads
 * and queues the others, and a circuit breaker, if configured, refuses loads for a while after
 * consecutive failures.
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
export class Sources {
  readonly #clock: Clock;
  readonly #longTick: LongTick;
  readonly #settings: SourceSettings;
  readonly #sources = new Map<string, Source>();

  constructor(clock: Clock, longTick: LongTick, settings: SourceSettings) {
    this.#clock = clock;
    this.#longTick = longTick;
    this.#settings = settings;
  }

  statuses(): SourceStatus[] {
    return [...this.#sources.values()].map(({ status }) => status);
  }

  /** Returns what guards the loads of a coordinate. */
  sourceOf(coordinate: string): Source {
    const existing = this.#sources.get(coordinate);
    if (existing !== undefined) return existing;
    const source = new Source(coordinate, this.#clock, this.#longTick, this.#settings);
    this.#sources.set(coordinate, source);
    return source;
  }
}

/**
 * What loads one coordinate. Turns that wait are admitted by owner in turn, and an owner has at
 * most half of the slots and of the queue, so that a request with hundreds of loads does not delay
 * others: the next request finds slots that are free. (P13) The slots that become free in one tick
 * are given away together at its end, so that batches of the source are as large as the bulkhead.
 */
class Source {
  readonly #coordinate: string;
  readonly #clock: Clock;
  readonly #longTick: LongTick;
  readonly #settings: SourceSettings;
  readonly #breaker: Breaker | undefined;
  readonly #running = new Set<Turn>();
  /** How many of these each owner has. */
  readonly #runningOf = new Map<object, number>();
  /** The turns that wait, by owner. The owner that was served last comes last. */
  readonly #waiting = new Map<object, Set<Turn>>();
  #queued = 0;
  /** The turns that loads of this tick join. */
  readonly #joinable = new Map<SourceBatch, Turn>();
  #isAdmitting = false;
  /** For each turn with loads that have exceeded their time limit and still run: how many. */
  readonly #overdue = new Map<Turn, number>();
  /** While too many loads are overdue: when the next one is admitted as a probe. */
  #probeAt = 0;

  constructor(coordinate: string, clock: Clock, longTick: LongTick, settings: SourceSettings) {
    this.#coordinate = coordinate;
    this.#clock = clock;
    this.#longTick = longTick;
    this.#settings = settings;
    const { breakerThreshold } = settings;
    this.#breaker = breakerThreshold === undefined ? undefined : new Breaker(clock, breakerThreshold);
  }

  get status(): SourceStatus {
    return {
      coordinate: this.#coordinate,
      running: this.#running.size,
      queued: this.#queued,
      overdue: this.#overdue.size,
      breaker: this.#breaker?.status,
    };
  }

  /** Runs `load`, at once or when a slot is free, unless it is refused. */
  run(isNested: boolean, load: SourceLoad): AdmittedLoad {
    const { batch } = load;
    const joinable = isNested || batch === undefined ? undefined : this.#joinBatch(batch);
    const joined = joinable ?? this.#newTurn(isNested, load);
    if (!(joined instanceof Turn))
      return { outcome: Promise.resolve(refused(joined)), expire: () => undefined, expedite: undefined };
    let turn = joined;
    const started = turn.begun && new Deferred<void>();
    if (started !== undefined) turn.begun?.promise.then(started.resolve, started.reject);
    let hasStarted = false;
    let isOverdue = false;
    let hasEnded = false;
    const runInTurn = async (): Promise<CallOutcome> => {
      let outcome: CallOutcome;
      try {
        if (started !== undefined) await started.promise;
        hasStarted = true;
        outcome = await load.run();
        if (!isOverdue) this.#learn(outcome);
      } catch (error) {
        outcome = refused(error);
      }
      hasEnded = true;
      if (isOverdue) this.#countOverdue(turn, -1);
      else this.#leave(turn);
      return outcome;
    };
    const expire = (): void => {
      if (!hasStarted)
        started?.reject(this.#refusal("it waited for others until its time was over (`loads.maxConcurrentLoads`)"));
      if (!hasStarted || isOverdue || hasEnded) return;
      isOverdue = true;
      this.#breaker?.failed();
      this.#countOverdue(turn, 1);
      const { maxConcurrentLoads, loadTimeoutMs } = this.#settings;
      if (this.#overdue.size === maxConcurrentLoads + 1) this.#probeAt = this.#clock.now() + loadTimeoutMs;
      this.#leave(turn);
    };
    const expedite = (): void => {
      if (hasStarted || hasEnded) return;
      this.#leave(turn);
      turn = new Turn(false, undefined);
      const reason = this.#refusalOfBreaker();
      if (reason === undefined) started?.resolve();
      else started?.reject(reason);
    };
    return { outcome: runInTurn(), expire, expedite: started && expedite };
  }

  /** Returns a turn of its own for a load, or why it must not begin. */
  #newTurn(isNested: boolean, { batch, owner }: SourceLoad): Turn | CachedError {
    const { maxConcurrentLoads, maxQueuedLoads, loadTimeoutMs } = this.#settings;
    if (this.#breaker?.isOpen === true) return this.#refusal(HAVE_FAILED);
    if (this.#overdue.size > maxConcurrentLoads) {
      const now = this.#clock.now();
      if (now < this.#probeAt) return this.#refusal(TOO_MANY_OVERDUE);
      this.#probeAt = now + loadTimeoutMs;
    }
    if (isNested) return this.#refusalOfBreaker() ?? new Turn(false, undefined);
    // Otherwise, those who wait have all the slots that an owner can have.
    const isQueued = this.#isAdmitting || this.#running.size >= maxConcurrentLoads || this.#hasItsSlots(owner);
    if (isQueued && this.#queued >= maxQueuedLoads) return this.#refusal(TOO_MANY);
    const waiting = owner && this.#waiting.get(owner);
    if (isQueued && waiting !== undefined && waiting.size >= halfOf(maxQueuedLoads))
      return this.#refusal(TOO_MANY_OF_ONE);
    const refusal = isQueued ? undefined : this.#refusalOfBreaker();
    if (refusal !== undefined) return refusal;
    const turn = new Turn(isQueued, owner);
    if (isQueued) {
      this.#queued++;
      this.#waiting.set(turn.owner, (waiting ?? new Set()).add(turn));
    } else this.#enter(turn);
    if (batch !== undefined) {
      if (this.#joinable.size === 0) this.#longTick.afterTick(() => this.#joinable.clear());
      this.#joinable.set(batch, turn);
    }
    return turn;
  }

  #hasItsSlots(owner: object | undefined): boolean {
    const running = owner && this.#runningOf.get(owner);
    return running !== undefined && running >= halfOf(this.#settings.maxConcurrentLoads);
  }

  #enter(turn: Turn): void {
    this.#running.add(turn);
    this.#runningOf.set(turn.owner, (this.#runningOf.get(turn.owner) ?? 0) + 1);
  }

  #exit(turn: Turn): boolean {
    if (!this.#running.delete(turn)) return false;
    const others = (this.#runningOf.get(turn.owner) as number) - 1;
    if (others > 0) this.#runningOf.set(turn.owner, others);
    else this.#runningOf.delete(turn.owner);
    return true;
  }

  /**
   * Adds a load to the turn that other loads of this tick with the same `batch` have. Undefined:
   * none has room.
   */
  #joinBatch(batch: SourceBatch): Turn | undefined {
    const turn = this.#joinable.get(batch);
    if (turn === undefined || turn.joined >= (batch.maxSize ?? Number.POSITIVE_INFINITY)) return undefined;
    turn.joined++;
    turn.members++;
    return turn;
  }

  #leave(turn: Turn): void {
    turn.members--;
    if (turn.members > 0) return;
    for (const [batch, joinable] of this.#joinable) if (joinable === turn) this.#joinable.delete(batch);
    if (this.#queued > 0) this.#dequeue(turn);
    if (!this.#exit(turn) || this.#isAdmitting || this.#queued === 0) return;
    this.#isAdmitting = true;
    this.#clock.afterTick(() => this.#admit());
  }

  #dequeue(turn: Turn): void {
    const turns = this.#waiting.get(turn.owner);
    if (turns?.delete(turn) !== true) return;
    this.#queued--;
    this.#waiting.delete(turn.owner);
    if (turns.size > 0) this.#waiting.set(turn.owner, turns);
  }

  #admit(): void {
    this.#isAdmitting = false;
    const { maxConcurrentLoads } = this.#settings;
    while (this.#running.size < maxConcurrentLoads) {
      const turn = this.#nextTurn();
      if (turn === undefined) return;
      this.#dequeue(turn);
      const isOverloaded = this.#overdue.size > maxConcurrentLoads;
      const refusal = isOverloaded ? this.#refusal(TOO_MANY_OVERDUE) : this.#refusalOfBreaker();
      if (refusal !== undefined) turn.begun?.reject(refusal);
      else {
        this.#enter(turn);
        turn.begun?.resolve();
      }
    }
  }

  /** Passes over owners with all of their slots: there are no more of them than slots. */
  #nextTurn(): Turn | undefined {
    for (const [owner, [turn]] of this.#waiting) if (!this.#hasItsSlots(owner)) return turn;
    return undefined;
  }

  #learn(outcome: CallOutcome): void {
    if (outcome.kind === "failed" && outcome.isCallersOwn) return;
    if (outcome.kind === "failed" && outcome.isSourceFailure) this.#breaker?.failed();
    else this.#breaker?.succeeded();
    if (outcome.kind === "returned" && this.#overdue.size > this.#settings.maxConcurrentLoads) this.#overdue.clear();
  }

  #countOverdue(turn: Turn, change: 1 | -1): void {
    const count = (this.#overdue.get(turn) ?? 0) + change;
    if (count > 0) this.#overdue.set(turn, count);
    else this.#overdue.delete(turn);
  }

  /** Returns why a turn must not begin now. If it may, an open breaker counts it as its probe. */
  #refusalOfBreaker(): CachedError | undefined {
    return this.#breaker?.mayTry() === false ? this.#refusal(HAVE_FAILED) : undefined;
  }

  #refusal(reason: string): CachedError {
    const coordinate = this.#coordinate;
    const message = `\`${coordinate}\`: the load was refused: ${reason}; try again in a moment`;
    return new CachedError("CACHED_SOURCE_UNAVAILABLE", message, { coordinate });
  }
}

const HAVE_FAILED = "its last loads have all failed";
const TOO_MANY = "too many loads run or wait (`loads.maxConcurrentLoads`, `loads.maxQueuedLoads`)";
const TOO_MANY_OF_ONE = "too many loads of its request wait (half of `loads.maxQueuedLoads`)";
const TOO_MANY_OVERDUE =
  "too many loads have exceeded `loads.loadTimeoutMs` and still run (`loads.maxConcurrentLoads`)";

/** What one request can have of what all share. */
const halfOf = (all: number): number => Math.max(1, Math.floor(all / 2));

/**
 * The turn of one load, or of those that their source gets as one call. It ends when the last has
 * left.
 */
class Turn {
  /** Resolves when the loads may run, and rejects if they must not. Undefined: they may run now. */
  readonly begun: Deferred<void> | undefined;
  /** The request of the server that its first load belongs to. */
  readonly owner: object;
  /** How many loads have joined, and how many of them have not left. */
  joined = 1;
  members = 1;

  /** `owner`: undefined if the load belongs to no request. */
  constructor(isQueued: boolean, owner: object | undefined) {
    this.owner = owner ?? this;
    this.begun = isQueued ? new Deferred() : undefined;
    this.begun?.promise.catch(() => undefined);
  }
}

export interface SourceSettings {
  /**
   * Maximum number of concurrent loads of one coordinate in this process. A batch counts as one.
   */
  readonly maxConcurrentLoads: number;
  /**
   * Maximum number of loads that wait for a slot. A batch counts as one. Further loads are refused.
   */
  readonly maxQueuedLoads: number;
  /**
   * Number of consecutive failures after which the loads of a coordinate are refused for a while.
   * Undefined: never.
   */
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
    };

export interface SourceLoad {
  /** Never rejects. */
  run(): Promise<CallOutcome>;
  /**
   * Loads of one tick with the same batch are one call of their source. Undefined: a call of its
   * own.
   */
  readonly batch: SourceBatch | undefined;
  /**
   * The request of the server that it belongs to: requests get free slots in turn. Undefined: none.
   */
  readonly owner: object | undefined;
}

export interface AdmittedLoad {
  /** With `CACHED_SOURCE_UNAVAILABLE` if the load did not begin. Never rejects. */
  readonly outcome: Promise<CallOutcome>;
  /**
   * Ends the time of the load: its slot is free, and it counts as a failure, or is refused if it
   * has not begun.
   */
  expire(): void;
  /** Begins the load without a slot. Undefined if the load has not waited for one. */
  readonly expedite: (() => void) | undefined;
}

/** How the loads of one coordinate are doing in this process. A batch counts as one load. */
export interface SourceStatus {
  readonly coordinate: string;
  readonly running: number;
  readonly queued: number;
  /** Calls that have exceeded their time limit and still run. */
  readonly overdue: number;
  readonly breaker: BreakerStatus | undefined;
}

const refused = (error: unknown): CallOutcome => ({
  kind: "failed",
  error,
  isCallersOwn: false,
  isSourceFailure: true,
});

export const isRefusal = (error: unknown): boolean =>
  error instanceof CachedError && error.code === "CACHED_SOURCE_UNAVAILABLE";
