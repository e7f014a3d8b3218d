import { type BulkheadPolicy, bulkhead } from "cockatiel";
import type { Clock } from "../clock.js";
import { CachedError } from "../errors.js";
import { Breaker } from "../store/breaker.js";

/** The settings of the source guard. The resolved options satisfy this interface. */
export interface GuardSettings {
  /**
   * Maximum number of concurrent loads of one coordinate in this process. Loads that begin in one
   * tick count as one.
   */
  readonly maxConcurrentLoads: number;
  /** Maximum number of loads that wait for a slot. Further loads are refused. */
  readonly maxQueuedLoads: number;
  /**
   * Number of consecutive failures after which the loads of a coordinate are refused for a while.
   * Undefined: never.
   */
  readonly breakerThreshold: number | undefined;
  /**
   * Returns whether an error means that the source is in trouble, rather than that this one value
   * cannot be loaded. Undefined: every error does.
   */
  readonly isSourceFailure: ((error: unknown, coordinate: string) => boolean) | undefined;
  /** How long a load may take. */
  readonly loadTimeoutMs: number;
}

/** A load to be guarded. */
export interface GuardableLoad<T> {
  run(): Promise<T>;
  /** Returns whether `run` has failed for reasons that say nothing about the source. */
  isCallersOwn(): boolean;
}

/** A load that the guard runs, refuses, or lets wait for a slot. */
export interface GuardedLoad<T> {
  /** Rejects with the error of the load, or with `CACHED_SOURCE_UNAVAILABLE` if it did not begin. */
  readonly result: Promise<T>;
  /**
   * Ends the time of the load: its slot is free again, and it counts as a failure. A load that has
   * not begun is refused. Without effect after the load has ended.
   */
  expire(): void;
}

/**
 * The loads of one coordinate that began in one tick. A batching source gets them as one call, so
 * they share one slot.
 */
interface Batch {
  members: number;
  readonly started: Promise<void>;
  isStarted: boolean;
  /** The number of its loads that are overdue and still running. */
  overdue: number;
  end(): void;
}

interface Source {
  readonly slots: BulkheadPolicy;
  readonly breaker: Breaker | undefined;
  /** The batch that loads of this tick join. */
  current: Batch | undefined;
  /** The batches with loads that have exceeded their time limit and still run. */
  readonly overdue: Set<Batch>;
  /** While too many loads are overdue: when the next one is admitted as a probe. */
  probeAt: number;
}

/**
 * Protects the sources of loads, separately for each coordinate. A bulkhead bounds the number of
 * concurrent loads and queues the others. A circuit breaker, if configured, refuses loads for a
 * while after consecutive failures and then admits one as a probe.
 *
 * A load inside another load does not wait for a slot: the outer load holds one and waits for the
 * inner load, so both could wait forever.
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
  readonly #settings: GuardSettings;
  readonly #sources = new Map<string, Source>();

  constructor(clock: Clock, settings: GuardSettings) {
    this.#clock = clock;
    this.#settings = settings;
  }

  /** Runs `load`, at once or when a slot is free, unless it is refused. */
  run<T>(coordinate: string, isNested: boolean, load: GuardableLoad<T>): GuardedLoad<T> {
    const source = this.#sourceOf(coordinate);
    if (source.breaker?.mayTry() === false) return refused(refusal(coordinate, "its last loads have all failed"));
    if (!this.#admits(source)) return refused(tooManyOverdue(coordinate));
    const batch = isNested ? nestedBatch() : this.#joinBatch(source);
    let state: "queued" | "running" | "overdue" | "ended" = "queued";
    let refuse: (error: CachedError) => void = () => undefined;
    const runInSlot = async (): Promise<T> => {
      try {
        if (!batch.isStarted) {
          const isExpired = new Promise<never>((_, reject) => {
            refuse = reject;
          });
          await Promise.race([waitForSlot(batch, coordinate), isExpired]);
          if (source.overdue.size > this.#settings.maxConcurrentLoads) throw tooManyOverdue(coordinate);
        }
        state = "running";
        const value = await load.run();
        if (state === "running") this.#succeeded(source);
        return value;
      } catch (error) {
        if (state === "running" && !load.isCallersOwn()) this.#failed(source, error, coordinate);
        throw error;
      } finally {
        if (state === "overdue") this.#overdueEnded(source, batch);
        else if (state !== "ended") this.#leave(source, batch);
        state = "ended";
      }
    };
    const expire = (): void => {
      if (state === "running") {
        state = "overdue";
        source.breaker?.failed();
        this.#addOverdue(source, batch);
        this.#leave(source, batch);
      } else if (state === "queued")
        refuse(refusal(coordinate, "it waited for others until its time was over (`maxConcurrentLoads`)"));
    };
    batch.members++;
    return { result: runInSlot(), expire };
  }

  #succeeded(source: Source): void {
    source.breaker?.succeeded();
    if (source.overdue.size > this.#settings.maxConcurrentLoads) source.overdue.clear();
  }

  #failed({ breaker }: Source, error: unknown, coordinate: string): void {
    if (this.#settings.isSourceFailure?.(error, coordinate) ?? true) breaker?.failed();
    else breaker?.succeeded();
  }

  /** Returns whether few enough loads are overdue, or whether the load may be a probe. */
  #admits(source: Source): boolean {
    if (source.overdue.size <= this.#settings.maxConcurrentLoads) return true;
    const now = this.#clock.now();
    if (now < source.probeAt) return false;
    source.probeAt = now + this.#settings.loadTimeoutMs;
    return true;
  }

  #addOverdue(source: Source, batch: Batch): void {
    batch.overdue++;
    source.overdue.add(batch);
    const { maxConcurrentLoads, loadTimeoutMs } = this.#settings;
    if (source.overdue.size === maxConcurrentLoads + 1) source.probeAt = this.#clock.now() + loadTimeoutMs;
  }

  #overdueEnded(source: Source, batch: Batch): void {
    batch.overdue--;
    if (batch.overdue === 0) source.overdue.delete(batch);
  }

  /** Ends the batch with its last load, which frees its slot. */
  #leave(source: Source, batch: Batch): void {
    batch.members--;
    if (batch.members > 0) return;
    if (source.current === batch) source.current = undefined;
    batch.end();
  }

  /** Returns the batch of this tick, and requests a slot for it if it is new. */
  #joinBatch(source: Source): Batch {
    if (source.current !== undefined) return source.current;
    let end = (): void => undefined;
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    let start = (): void => undefined;
    let refuse: (error: unknown) => void = () => undefined;
    const started = new Promise<void>((resolve, reject) => {
      start = resolve;
      refuse = reject;
    });
    started.catch(() => undefined);
    const batch: Batch = { members: 0, started, isStarted: false, overdue: 0, end };
    source.current = batch;
    this.#clock.afterTick(() => {
      if (source.current === batch) source.current = undefined;
    });
    source.slots
      .execute(() => {
        batch.isStarted = true;
        start();
        return ended;
      })
      .catch(refuse);
    return batch;
  }

  #sourceOf(coordinate: string): Source {
    const existing = this.#sources.get(coordinate);
    if (existing !== undefined) return existing;
    const { maxConcurrentLoads, maxQueuedLoads, breakerThreshold } = this.#settings;
    const breaker = breakerThreshold === undefined ? undefined : new Breaker(this.#clock, breakerThreshold);
    const slots = bulkhead(maxConcurrentLoads, maxQueuedLoads);
    const source: Source = { slots, breaker, current: undefined, overdue: new Set(), probeAt: 0 };
    this.#sources.set(coordinate, source);
    return source;
  }
}

/** The batch of one load inside another load, which needs no slot. */
const nestedBatch = (): Batch => ({
  members: 0,
  started: Promise.resolve(),
  isStarted: true,
  overdue: 0,
  end: () => undefined,
});

function refused(error: CachedError): GuardedLoad<never> {
  return { result: Promise.reject(error), expire: () => undefined };
}

const tooManyOverdue = (coordinate: string): CachedError =>
  refusal(coordinate, "too many loads have exceeded `loadTimeoutMs` and still run (`maxConcurrentLoads`)");

async function waitForSlot(batch: Batch, coordinate: string): Promise<void> {
  try {
    await batch.started;
  } catch (cause) {
    throw refusal(coordinate, "too many loads run or wait (`maxConcurrentLoads`, `maxQueuedLoads`)", cause);
  }
}

function refusal(coordinate: string, reason: string, cause?: unknown): CachedError {
  const message = `\`${coordinate}\`: the load was refused: ${reason}; try again in a moment`;
  return new CachedError("CACHED_SOURCE_UNAVAILABLE", message, { coordinate, cause });
}

/** Returns whether `error` means that a load was refused before it began. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof CachedError && error.code === "CACHED_SOURCE_UNAVAILABLE";
