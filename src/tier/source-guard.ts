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
}

/**
 * The loads of one coordinate that began in one tick. A batching source gets them as one call, so
 * they share one slot.
 */
interface Batch {
  members: number;
  readonly started: Promise<void>;
  isStarted: boolean;
  end(): void;
}

interface Source {
  readonly slots: BulkheadPolicy;
  readonly breaker: Breaker | undefined;
  /** The batch that loads of this tick join. */
  current: Batch | undefined;
}

/**
 * Protects the sources of loads, separately for each coordinate. A bulkhead bounds the number of
 * concurrent loads and queues the others. A circuit breaker, if configured, refuses loads for a
 * while after consecutive failures and then admits one as a probe.
 *
 * A load inside another load does not wait for a slot: the outer load holds one and waits for the
 * inner load, so both could wait forever.
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

  /**
   * Runs `load`, at once or when a slot is free. Rejects with the error of the load, or with
   * `CACHED_SOURCE_UNAVAILABLE` without having called it.
   */
  async run<T>(coordinate: string, isNested: boolean, load: () => Promise<T>): Promise<T> {
    const source = this.#sourceOf(coordinate);
    if (source.breaker?.mayTry() === false) throw refusal(coordinate, "its last loads have all failed");
    if (isNested) return this.#runWithBreaker(source, coordinate, load);
    const batch = this.#joinBatch(source);
    batch.members++;
    try {
      if (!batch.isStarted) await waitForSlot(batch, coordinate);
      return await this.#runWithBreaker(source, coordinate, load);
    } finally {
      batch.members--;
      if (batch.members === 0) {
        if (source.current === batch) source.current = undefined;
        batch.end();
      }
    }
  }

  async #runWithBreaker<T>({ breaker }: Source, coordinate: string, load: () => Promise<T>): Promise<T> {
    if (breaker === undefined) return load();
    try {
      const value = await load();
      breaker.succeeded();
      return value;
    } catch (error) {
      if (this.#settings.isSourceFailure?.(error, coordinate) ?? true) breaker.failed();
      else breaker.succeeded();
      throw error;
    }
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
    const batch: Batch = { members: 0, started, isStarted: false, end };
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
    const source: Source = { slots: bulkhead(maxConcurrentLoads, maxQueuedLoads), breaker, current: undefined };
    this.#sources.set(coordinate, source);
    return source;
  }
}

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
