import type { Clock } from "../../base/clock.js";
import type { CachedError } from "../../base/errors.js";
import type { SourceBatch } from "../request/request.js";
import type { LongTick } from "../tick/long-tick.js";

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
  /** The request of the server that its first load belongs to. */
  readonly owner: object;
  /** How many loads have joined, and how many of them have not left. */
  joined = 0;
  members = 0;
  #settle: { readonly resolve: () => void; readonly reject: (error: CachedError) => void } | undefined;

  /** `owner`: undefined if the load belongs to no request. */
  constructor(isQueued: boolean, owner: object | undefined) {
    this.owner = owner ?? this;
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
 * Bounds how many turns run at a time. The others wait: their owners are served in turn, and the turns of one owner in the
 * order of their arrival, so that a request with hundreds of loads does not keep the loads of others waiting. The slots that
 * become free in one tick are given away together at its end, so that a source which batches what it
 * is asked for in one tick still can: its batches are as large as the bulkhead.
 */
export class Bulkhead {
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
  joinBatch(batch: SourceBatch | undefined): Turn | undefined {
    const turn = batch === undefined ? undefined : this.#joinable.get(batch);
    if (turn === undefined || turn.joined >= (batch?.maxSize ?? Number.POSITIVE_INFINITY)) return undefined;
    turn.add();
    return turn;
  }

  /** Adds a load with a turn of its own. Returns the turn, why it must not begin, or undefined if too many wait. */
  join(batch: SourceBatch | undefined, owner: object | undefined): Turn | CachedError | undefined {
    const turn = this.#newTurn(owner);
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
    this.#dequeue(turn);
    if (this.#running.delete(turn)) this.#admitAfterTick();
  }

  #newTurn(owner: object | undefined): Turn | CachedError | undefined {
    const { maxRunning, maxQueued, refusalOf } = this.#options;
    if (this.#queued > 0 || this.#running.size >= maxRunning) {
      if (this.#queued >= maxQueued) return undefined;
      const turn = new Turn(true, owner);
      const others = this.#waiting.get(turn.owner);
      if (others === undefined) this.#waiting.set(turn.owner, new Set([turn]));
      else others.add(turn);
      this.#queued++;
      return turn;
    }
    const refusal = refusalOf(false);
    if (refusal !== undefined) return refusal;
    const turn = new Turn(false, owner);
    this.#running.add(turn);
    return turn;
  }

  #dequeue(turn: Turn): void {
    const turns = this.#waiting.get(turn.owner);
    if (turns?.delete(turn) !== true) return;
    this.#queued--;
    this.#waiting.delete(turn.owner);
    if (turns.size > 0) this.#waiting.set(turn.owner, turns);
  }

  #shareInTick(batch: SourceBatch, turn: Turn): void {
    if (this.#joinable.size === 0) this.#longTick.afterTick(() => this.#joinable.clear());
    this.#joinable.set(batch, turn);
  }

  /** Only to be called if a turn waits. */
  #firstWaiting(): Turn {
    const [turns] = this.#waiting.values();
    const [turn] = turns ?? [];
    return turn as Turn;
  }

  #admitAfterTick(): void {
    if (this.#isAdmitting || this.#queued === 0) return;
    this.#isAdmitting = true;
    this.#clock.afterTick(() => this.#admit());
  }

  #admit(): void {
    this.#isAdmitting = false;
    while (this.#queued > 0 && this.#running.size < this.#options.maxRunning) {
      const turn = this.#firstWaiting();
      this.#dequeue(turn);
      const refusal = this.#options.refusalOf(true);
      if (refusal !== undefined) turn.refuse(refusal);
      else {
        this.#running.add(turn);
        turn.begin();
      }
    }
  }
}
