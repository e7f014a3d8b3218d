import { type BulkheadPolicy, bulkhead } from "cockatiel";
import type { Clock } from "../clock.js";
import { CachedError } from "../errors.js";
import { Breaker } from "../store/breaker.js";

/** The few settings of the guard; the resolved options happen to satisfy it. */
export interface GuardSettings {
  /** Of one coordinate, in one process, at the same time. Loads that begin in one tick count as one. */
  readonly maxConcurrentLoads: number;
  /** How many wait for their turn; more are refused. */
  readonly maxQueuedLoads: number;
  /** After so many failures in a row the loads of a coordinate are refused for a while; undefined: never. */
  readonly breakerThreshold: number | undefined;
  /** Whether an error says that the source is in trouble, and not only that this value cannot be had. Undefined: every error does. */
  readonly isSourceFailure: ((error: unknown, coordinate: string) => boolean) | undefined;
}

/** The loads of one coordinate that began in one tick: they reach a source that batches as one call, so they share one place. */
interface Batch {
  members: number;
  readonly started: Promise<void>;
  isStarted: boolean;
  end(): void;
}

interface Source {
  readonly places: BulkheadPolicy;
  readonly breaker: Breaker | undefined;
  open: Batch | undefined;
}

/**
 * Stands between loads and their sources, one guard a coordinate: only so many loads run at a time, the others queue; and if it is told to,
 * it refuses loads for a while after so many failures in a row, then lets one through to see.
 * A load inside another is not held up: the outer one has a place, and would wait for the inner one, which waits for a place.
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
   * Runs `load` at once, or when its turn has come. Rejects with the load's own error, or, without having called it, with
   * `CACHED_SOURCE_UNAVAILABLE`.
   */
  async run<T>(coordinate: string, isNested: boolean, load: () => Promise<T>): Promise<T> {
    const source = this.#sourceOf(coordinate);
    if (source.breaker?.mayTry() === false) throw refused(coordinate, "too many of its loads in a row have failed");
    if (isNested) return this.#watched(source, coordinate, load);
    const batch = this.#batchOf(source);
    batch.members++;
    try {
      if (!batch.isStarted) await startOf(batch, coordinate);
      return await this.#watched(source, coordinate, load);
    } finally {
      batch.members--;
      if (batch.members === 0) {
        if (source.open === batch) source.open = undefined;
        batch.end();
      }
    }
  }

  async #watched<T>({ breaker }: Source, coordinate: string, load: () => Promise<T>): Promise<T> {
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

  #batchOf(source: Source): Batch {
    if (source.open !== undefined) return source.open;
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
    source.open = batch;
    this.#clock.afterTick(() => {
      if (source.open === batch) source.open = undefined;
    });
    source.places
      .execute(() => {
        batch.isStarted = true;
        start();
        return ended;
      })
      .catch(refuse);
    return batch;
  }

  #sourceOf(coordinate: string): Source {
    const known = this.#sources.get(coordinate);
    if (known !== undefined) return known;
    const { maxConcurrentLoads, maxQueuedLoads, breakerThreshold } = this.#settings;
    const breaker = breakerThreshold === undefined ? undefined : new Breaker(this.#clock, breakerThreshold);
    const source: Source = { places: bulkhead(maxConcurrentLoads, maxQueuedLoads), breaker, open: undefined };
    this.#sources.set(coordinate, source);
    return source;
  }
}

async function startOf(batch: Batch, coordinate: string): Promise<void> {
  try {
    await batch.started;
  } catch (cause) {
    throw refused(coordinate, "too many are running and waiting (`maxConcurrentLoads`, `maxQueuedLoads`)", cause);
  }
}

function refused(coordinate: string, why: string, cause?: unknown): CachedError {
  const message = `a load of \`${coordinate}\` was refused: ${why}; it may be tried again in a moment`;
  return new CachedError("CACHED_SOURCE_UNAVAILABLE", message, { coordinate, cause });
}

/** Whether `error` says that a load was refused, and never began. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof CachedError && error.code === "CACHED_SOURCE_UNAVAILABLE";
