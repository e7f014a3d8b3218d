import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { CachedError } from "../../base/errors.js";
import { Breaker, type BreakerStatus } from "../../store/breaker.js";
import type { SourceBatch } from "../request/request.js";
import type { LongTick } from "../tick/long-tick.js";

/**
 * Protects the sources of loads, separately for each coordinate. A bulkhead bounds the number of
 * concurrent loads and queues the others. A circuit breaker, if configured, refuses
 * loads for a while after consecutive failures and then admits one as a probe.
 *
 * A load inside another load does not wait for a slot: the outer load holds one and waits for the
 * inner load, so both could wait forever. For the same reason, a load that waits for a slot is
 * expedited when a reader inside another load waits for its key: see `Loads.expedite`.
 *
 * A load that exceeds its time limit gives its slot back, since it may never end. It is then
 * overdue, and so that overdue loads cannot add up, new ones are refused while more than
 * `maxConcurrentLoads` are outstanding. Every `loadTimeoutMs` one load is admitted as a probe; if a
 * load succeeds, the source is well again and the overdue loads are presumed lost.
 *
 * Source: M. Nygard, "Release It!", chapters "Bulkheads" and "Circuit Breaker".
 */
export class SourceGuard {
  readonly #clock: Clock;
  readonly #longTick: LongTick;
  readonly #settings: GuardSettings;
  readonly #sources = new Map<string, Source>();

  constructor(clock: Clock, longTick: LongTick, settings: GuardSettings) {
    this.#clock = clock;
    this.#longTick = longTick;
    this.#settings = settings;
  }

  /** The sources that have been asked so far. */
  statuses(): SourceStatus[] {
    return [...this.#sources.values()].map(({ coordinate, bulkhead, breaker, overdue }) => ({
      coordinate,
      ...bulkhead.counts,
      overdue: overdue.size,
      breaker: breaker?.status,
    }));
  }

  /**
   * Returns whether a source has room for a call that nobody waits for: more than half of the slots are free, no load
   * waits for one or is overdue, and the breaker is closed.
   */
  hasRoom(coordinate: string): boolean {
    const { bulkhead, breaker, overdue } = this.#sourceOf(coordinate);
    const { running, queued } = bulkhead.counts;
    if (breaker !== undefined && breaker.status.state !== "closed") return false;
    return 2 * running < this.#settings.maxConcurrentLoads && queued === 0 && overdue.size === 0;
  }

  /** Runs `load`, at once or when a slot is free, unless it is refused. */
  run(coordinate: string, isNested: boolean, load: GuardableLoad): GuardedLoad {
    const source = this.#sourceOf(coordinate);
    const { bulkhead, breaker } = source;
    const { batch } = load;
    const joinable = isNested || batch === undefined ? undefined : bulkhead.joinBatch(batch);
    const joined = joinable ?? this.#newTurn(source, isNested, load);
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
        if (!isOverdue) this.#learn(source, outcome);
      } catch (error) {
        outcome = refused(error);
      }
      hasEnded = true;
      if (isOverdue) addOverdue(source, turn, -1);
      else bulkhead.leave(turn);
      return outcome;
    };
    const expire = (): void => {
      if (!hasStarted)
        started?.reject(refusal(coordinate, "it waited for others until its time was over (`maxConcurrentLoads`)"));
      if (!hasStarted || isOverdue || hasEnded) return;
      isOverdue = true;
      breaker?.failed();
      addOverdue(source, turn, 1);
      const { maxConcurrentLoads, loadTimeoutMs } = this.#settings;
      if (source.overdue.size === maxConcurrentLoads + 1) source.probeAt = this.#clock.now() + loadTimeoutMs;
      bulkhead.leave(turn);
    };
    const expedite = (): void => {
      if (hasStarted || hasEnded) return;
      bulkhead.leave(turn);
      turn = new Turn(false, undefined);
      const reason = refusalOfBreaker(source);
      if (reason === undefined) started?.resolve();
      else started?.reject(reason);
    };
    return { outcome: runInTurn(), expire, expedite: started && expedite };
  }

  #newTurn(source: Source, isNested: boolean, { batch, owner }: GuardableLoad): Turn | CachedError {
    const { coordinate, breaker, bulkhead } = source;
    if (breaker?.isOpen === true) return haveFailed(coordinate);
    if (source.overdue.size > this.#settings.maxConcurrentLoads) {
      const now = this.#clock.now();
      if (now < source.probeAt) return tooManyOverdue(coordinate);
      source.probeAt = now + this.#settings.loadTimeoutMs;
    }
    if (isNested) return refusalOfBreaker(source) ?? new Turn(false, undefined);
    return (
      bulkhead.join(batch, owner) ??
      refusal(coordinate, "too many loads run or wait (`maxConcurrentLoads`, `maxQueuedLoads`)")
    );
  }

  #learn({ breaker, overdue }: Source, outcome: CallOutcome): void {
    if (outcome.kind === "failed" && outcome.isCallersOwn) return;
    if (outcome.kind === "failed" && outcome.isSourceFailure) breaker?.failed();
    else breaker?.succeeded();
    if (outcome.kind === "returned" && overdue.size > this.#settings.maxConcurrentLoads) overdue.clear();
  }

  #sourceOf(coordinate: string): Source {
    const existing = this.#sources.get(coordinate);
    if (existing !== undefined) return existing;
    const { maxConcurrentLoads, maxQueuedLoads, breakerThreshold } = this.#settings;
    const bulkhead = new Bulkhead(this.#clock, this.#longTick, {
      maxRunning: maxConcurrentLoads,
      maxQueued: maxQueuedLoads,
      refusalOf: (hasWaited) =>
        hasWaited && source.overdue.size > maxConcurrentLoads ? tooManyOverdue(coordinate) : refusalOfBreaker(source),
    });
    const breaker = breakerThreshold === undefined ? undefined : new Breaker(this.#clock, breakerThreshold);
    const source: Source = { coordinate, bulkhead, breaker, overdue: new Map(), probeAt: 0 };
    this.#sources.set(coordinate, source);
    return source;
  }
}

/**
 * Bounds how many turns run at a time. The others wait: their owners are served in turn, and the turns of one owner in the
 * order of their arrival, so that a request with hundreds of loads does not keep the loads of others waiting. The slots that
 * become free in one tick are given away together at its end, so that a source which batches what it
 * is asked for in one tick still can: its batches are as large as the bulkhead.
 */
class Bulkhead {
  readonly #clock: Clock;
  readonly #longTick: LongTick;
  readonly #options: BulkheadOptions;
  readonly #running = new Set<Turn>();
  /** The turns that wait, by owner. The owner that was served last comes last. */
  readonly #waiting = new Map<object, Set<Turn>>();
  #queued = 0;
  /** The turns that loads of this tick join. */
  readonly #joinable = new Map<SourceBatch, Turn>();
  #isAdmitting = false;

  constructor(clock: Clock, longTick: LongTick, options: BulkheadOptions) {
    this.#clock = clock;
    this.#longTick = longTick;
    this.#options = options;
  }

  /** How many turns run and wait. */
  get counts(): { readonly running: number; readonly queued: number } {
    return { running: this.#running.size, queued: this.#queued };
  }

  /** Adds a load to the turn that other loads of this tick with the same `batch` have. Undefined: none has room. */
  joinBatch(batch: SourceBatch): Turn | undefined {
    const turn = this.#joinable.get(batch);
    if (turn === undefined || turn.joined >= (batch.maxSize ?? Number.POSITIVE_INFINITY)) return undefined;
    turn.joined++;
    turn.members++;
    return turn;
  }

  /** Adds a load with a turn of its own. Returns the turn, why it must not begin, or undefined if too many wait. */
  join(batch: SourceBatch | undefined, owner: object | undefined): Turn | CachedError | undefined {
    const { maxRunning, maxQueued, refusalOf } = this.#options;
    const isQueued = this.#queued > 0 || this.#running.size >= maxRunning;
    if (isQueued && this.#queued >= maxQueued) return undefined;
    const refusal = isQueued ? undefined : refusalOf(false);
    if (refusal !== undefined) return refusal;
    const turn = new Turn(isQueued, owner);
    if (isQueued) {
      this.#queued++;
      this.#waiting.set(turn.owner, (this.#waiting.get(turn.owner) ?? new Set()).add(turn));
    } else this.#running.add(turn);
    if (batch !== undefined) {
      if (this.#joinable.size === 0) this.#longTick.afterTick(() => this.#joinable.clear());
      this.#joinable.set(batch, turn);
    }
    return turn;
  }

  /** Ends a load of a turn. */
  leave(turn: Turn): void {
    turn.members--;
    if (turn.members > 0) return;
    for (const [batch, joinable] of this.#joinable) if (joinable === turn) this.#joinable.delete(batch);
    if (this.#queued > 0) this.#dequeue(turn);
    if (!this.#running.delete(turn) || this.#isAdmitting || this.#queued === 0) return;
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
    while (this.#queued > 0 && this.#running.size < this.#options.maxRunning) {
      const [turns = []] = this.#waiting.values();
      const [turn] = turns;
      this.#dequeue(turn as Turn);
      const refusal = this.#options.refusalOf(true);
      if (refusal !== undefined) turn?.begun?.reject(refusal);
      else {
        this.#running.add(turn as Turn);
        turn?.begun?.resolve();
      }
    }
  }
}

/**
 * The turn of one load, or of the loads that their source gets as one call. With a slot, it ends when
 * its last load has left.
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

/** The limits of a bulkhead, and what else may keep a turn from beginning. */
interface BulkheadOptions {
  readonly maxRunning: number;
  readonly maxQueued: number;
  /** Returns why a turn that could begin must not; undefined if it may. `hasWaited`: for its slot. */
  refusalOf(hasWaited: boolean): CachedError | undefined;
}

/** The settings of the source guard. The resolved options satisfy this interface. */
export interface GuardSettings {
  /** Maximum number of concurrent loads of one coordinate in this process. A batch counts as one. */
  readonly maxConcurrentLoads: number;
  /** Maximum number of loads that wait for a slot. A batch counts as one. Further loads are refused. */
  readonly maxQueuedLoads: number;
  /** Number of consecutive failures after which the loads of a coordinate are refused for a while. Undefined: never. */
  readonly breakerThreshold: number | undefined;
  /** How long a load may take. */
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

/** A load to be guarded. */
export interface GuardableLoad {
  /** Never rejects. */
  run(): Promise<CallOutcome>;
  /** Loads of one tick with the same batch are one call of their source. Undefined: a call of its own. */
  readonly batch: SourceBatch | undefined;
  /** The request of the server that it belongs to: requests get free slots in turn. Undefined: none. */
  readonly owner: object | undefined;
}

/** A load that the guard runs, refuses, or lets wait for a slot. */
export interface GuardedLoad {
  /** With `CACHED_SOURCE_UNAVAILABLE` if the load did not begin. Never rejects. */
  readonly outcome: Promise<CallOutcome>;
  /**
   * Ends the time of the load: its slot is free again, and it counts as a failure. A load that has
   * not begun is refused. Without effect after the load has ended.
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
  /** Undefined if there is no breaker. */
  readonly breaker: BreakerStatus | undefined;
}

interface Source {
  readonly coordinate: string;
  readonly bulkhead: Bulkhead;
  readonly breaker: Breaker | undefined;
  /** For each turn with loads that have exceeded their time limit and still run: how many. */
  readonly overdue: Map<Turn, number>;
  /** While too many loads are overdue: when the next one is admitted as a probe. */
  probeAt: number;
}

function addOverdue({ overdue }: Source, turn: Turn, change: 1 | -1): void {
  const count = (overdue.get(turn) ?? 0) + change;
  if (count > 0) overdue.set(turn, count);
  else overdue.delete(turn);
}

/** Returns why a turn must not begin now. If it may, an open breaker counts it as its probe. */
const refusalOfBreaker = ({ breaker, coordinate }: Source): CachedError | undefined =>
  breaker?.mayTry() === false ? haveFailed(coordinate) : undefined;

const refused = (error: unknown): CallOutcome => ({
  kind: "failed",
  error,
  isCallersOwn: false,
  isSourceFailure: true,
});

const haveFailed = (coordinate: string): CachedError => refusal(coordinate, "its last loads have all failed");

const tooManyOverdue = (coordinate: string): CachedError =>
  refusal(coordinate, "too many loads have exceeded `loadTimeoutMs` and still run (`maxConcurrentLoads`)");

function refusal(coordinate: string, reason: string): CachedError {
  const message = `\`${coordinate}\`: the load was refused: ${reason}; try again in a moment`;
  return new CachedError("CACHED_SOURCE_UNAVAILABLE", message, { coordinate });
}

/** Returns whether `error` means that a load was refused before it began. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof CachedError && error.code === "CACHED_SOURCE_UNAVAILABLE";
