import type { Clock } from "../clock.js";
import type { CachedError } from "../errors.js";
import type { LongTick } from "./long-tick.js";

/** Passes several loads to their source in one call. */
export interface SourceBatch {
  /** The maximum number of loads per call. Undefined: no limit. */
  readonly maxSize: number | undefined;
}

/** The limits of a bulkhead, and what else may keep a turn from beginning. */
export interface BulkheadOptions {
  readonly maxRunning: number;
  readonly maxQueued: number;
  /**
   * Called when a turn could begin. Returns why it must not; undefined if it may. `hasWaited`: whether
   * it has waited for its slot.
   */
  refusalOf(hasWaited: boolean): CachedError | undefined;
}

/**
 * The turn of one load, or of the loads that their source gets as one call. With a slot, it ends when
 * its last load has left.
 */
export class Turn {
  /** Resolves when the loads may run, and rejects if they must not. Undefined: they may run now. */
  readonly begun: Promise<void> | undefined;
  /** How many loads have joined, and how many of them have not left. */
  joined = 0;
  members = 0;
  #settle: { readonly resolve: () => void; readonly reject: (error: CachedError) => void } | undefined;

  constructor(isQueued: boolean) {
    if (!isQueued) return;
    this.begun = new Promise((resolve, reject) => {
      this.#settle = { resolve, reject };
    });
    this.begun.catch(() => undefined);
  }

  begin(): void {
    this.#settle?.resolve();
  }

  refuse(error: CachedError): void {
    this.#settle?.reject(error);
  }

  add(): void {
    this.joined++;
    this.members++;
  }
}

/**
 * Bounds how many turns run at a time; the others wait in the order of their arrival. The slots that
 * become free in one tick are given away together at its end, so that a source which batches what it
 * is asked for in one tick still can: its batches are as large as the bulkhead.
 */
export class Bulkhead {
  readonly #clock: Clock;
  readonly #longTick: LongTick;
  readonly #options: BulkheadOptions;
  readonly #running = new Set<Turn>();
  readonly #queue = new Set<Turn>();
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
    return { running: this.#running.size, queued: this.#queue.size };
  }

  /** Adds a load to the turn that other loads of this tick with the same `batch` have. Undefined: none has room. */
  joinBatch(batch: SourceBatch | undefined): Turn | undefined {
    const turn = batch === undefined ? undefined : this.#joinable.get(batch);
    if (turn === undefined || turn.joined >= (batch?.maxSize ?? Number.POSITIVE_INFINITY)) return undefined;
    turn.add();
    return turn;
  }

  /** Adds a load with a turn of its own. Returns the turn, why it must not begin, or undefined if too many wait. */
  join(batch: SourceBatch | undefined): Turn | CachedError | undefined {
    const turn = this.#newTurn();
    if (!(turn instanceof Turn)) return turn;
    turn.add();
    if (batch !== undefined) this.#shareInTick(batch, turn);
    return turn;
  }

  /** Ends a load of a turn. */
  leave(turn: Turn): void {
    turn.members--;
    if (turn.members > 0) return;
    for (const [batch, joinable] of this.#joinable) if (joinable === turn) this.#joinable.delete(batch);
    this.#queue.delete(turn);
    if (this.#running.delete(turn)) this.#admitAfterTick();
  }

  #newTurn(): Turn | CachedError | undefined {
    const { maxRunning, maxQueued, refusalOf } = this.#options;
    if (this.#queue.size > 0 || this.#running.size >= maxRunning) {
      if (this.#queue.size >= maxQueued) return undefined;
      const turn = new Turn(true);
      this.#queue.add(turn);
      return turn;
    }
    const refusal = refusalOf(false);
    if (refusal !== undefined) return refusal;
    const turn = new Turn(false);
    this.#running.add(turn);
    return turn;
  }

  #shareInTick(batch: SourceBatch, turn: Turn): void {
    if (this.#joinable.size === 0) this.#longTick.afterTick(() => this.#joinable.clear());
    this.#joinable.set(batch, turn);
  }

  #admitAfterTick(): void {
    if (this.#isAdmitting || this.#queue.size === 0) return;
    this.#isAdmitting = true;
    this.#clock.afterTick(() => this.#admit());
  }

  #admit(): void {
    this.#isAdmitting = false;
    for (const turn of this.#queue) {
      if (this.#running.size >= this.#options.maxRunning) return;
      this.#queue.delete(turn);
      const refusal = this.#options.refusalOf(true);
      if (refusal !== undefined) turn.refuse(refusal);
      else {
        this.#running.add(turn);
        turn.begin();
      }
    }
  }
}
