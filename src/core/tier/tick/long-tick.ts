import { AsyncResource } from "node:async_hooks";
import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";

/** Divides thousands of callers into turns that count as one tick, so that they share calls. */
export class LongTick implements Pick<Clock, "afterTick"> {
  /** How many callers continue in this turn, whatever they have waited for. */
  #continued = 0;
  #later: { callers: number; readonly begun: Deferred<void> }[] = [];

  constructor(private readonly clock: Pick<Clock, "afterTick">) {}

  /** Returns when so many callers may continue: no more than `PER_TURN` of all in a turn. */
  turnsFor(callers: number): Turns {
    if (this.#continued === 0 && this.#later.length === 0) this.clock.afterTick(() => this.#endTurn());
    const turns: (Promise<void> | undefined)[] = [];
    for (let left = callers; left > 0; left -= PER_TURN) {
      const size = Math.min(left, PER_TURN);
      let last = this.#later.at(-1);
      if (last === undefined && this.#continued + size <= PER_TURN) {
        this.#continued += size;
        turns.push(undefined);
        continue;
      }
      if (last === undefined || last.callers + size > PER_TURN) {
        last = { callers: 0, begun: new Deferred<void>() };
        this.#later.push(last);
      }
      last.callers += size;
      turns.push(last.begun.promise);
    }
    return turns;
  }

  #endTurn(): void {
    const next = this.#later.shift();
    this.#continued = next?.callers ?? 0;
    if (next === undefined) return;
    next.begun.resolve();
    // What waits for this turn to end comes before the next one.
    void next.begun.promise.then(() => this.clock.afterTick(() => this.#endTurn()));
  }

  /** Calls `fn` at the end of the last turn that callers have now. Later ones do not delay it. */
  afterTick(fn: () => void): void {
    const last = this.#later.at(-1);
    if (last === undefined) this.clock.afterTick(fn);
    else void last.begun.promise.then(() => this.clock.afterTick(fn));
  }

  /** Hands out `PER_TURN` results in each turn: first values, then promises. An Error rejects. */
  inTurns<Result>(results: readonly Result[]): readonly (Result | Promise<Result>)[] {
    const turns = this.turnsFor(results.length);
    return results.map((result, position) => {
      const handOut = (): Result | Promise<never> => (result instanceof Error ? Promise.reject(result) : result);
      return turns[Math.floor(position / PER_TURN)]?.then(handOut) ?? result;
    });
  }
}

/** How many keys or callers a turn of the event loop handles, in some milliseconds altogether. */
export const PER_TURN = 500;

/** When callers may continue, `PER_TURN` of them each. Undefined: in this turn. */
export type Turns = readonly (Promise<void> | undefined)[];

/** Calls `use` when the caller at `position` may continue: at once, or in a later turn. */
export function inTurn<Used>(
  turns: Turns | undefined,
  position: number,
  use: () => Used | PromiseLike<Used>,
): Used | PromiseLike<Used> {
  const turn = turns?.[Math.floor(position / PER_TURN)];
  return turn === undefined ? use() : turn.then(use);
}

/** Divides work on large values into turns of the event loop: others are served in between. */
export class ByteTurns {
  #bytes = 0;
  #waiting: (() => void)[] = [];

  constructor(private readonly clock: Pick<Clock, "afterTick">) {}

  /** Returns what `work` returns, at once or in a later turn. `bytesOf`: the size of the value. */
  run<T>(work: () => T, bytesOf: (result: T) => number): T | Promise<T> {
    if (this.#waiting.length > 0 || this.#bytes >= BYTES_PER_TURN)
      return new Promise((resolve) => {
        // In the context of its request: types are resolved by functions of the user.
        this.#waiting.push(AsyncResource.bind(() => resolve(this.#run(work, bytesOf))));
      });
    return this.#run(work, bytesOf);
  }

  #run<T>(work: () => T, bytesOf: (result: T) => number): T {
    const result = work();
    const bytes = bytesOf(result);
    if (bytes < MIN_COUNTED_BYTES) return result;
    if (this.#bytes === 0) this.clock.afterTick(() => this.#beginTurn());
    this.#bytes += bytes;
    return result;
  }

  #beginTurn(): void {
    this.#bytes = 0;
    let next = 0;
    for (let work = this.#waiting[0]; work !== undefined && this.#bytes < BYTES_PER_TURN; work = this.#waiting[++next])
      work();
    this.#waiting.splice(0, next);
  }
}

/** After this much has been encoded in a turn of the event loop, the next value has to wait. */
const BYTES_PER_TURN = 4 * 1024 * 1024;
/** Smaller values are not counted: `PER_TURN` bounds them. */
const MIN_COUNTED_BYTES = 4 * 1024;
