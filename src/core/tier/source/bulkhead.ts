import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import type { CachedError } from "../../base/errors.js";
import type { SourceBatch } from "../request/request.js";
import type { LongTick } from "../tick/long-tick.js";

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
    const turn = batch && this.#joinable.get(batch);
    if (turn === undefined || turn.joined >= (batch?.maxSize ?? Number.POSITIVE_INFINITY)) return undefined;
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
    this.#dequeue(turn);
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
export class Turn {
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
