import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { CachedError } from "../../base/errors.js";
import { Breaker, type BreakerStatus } from "../../store/breaker.js";
import type { SourceBatch } from "../request/request.js";
import type { LongTick } from "../tick/long-tick.js";
import { Bulkhead, Turn } from "./bulkhead.js";

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
    const joined = (isNested ? undefined : bulkhead.joinBatch(load.batch)) ?? this.#newTurn(source, isNested, load);
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
