import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";

/**
 * Lets work on thousands of keys, which is divided into turns of the event loop, count as one tick: what
 * follows from it is still sent to the store, or passed to a source, in one call.
 */
export class LongTick implements Pick<Clock, "afterTick"> {
  /** Says when a turn of the event loop ends. */
  readonly clock: Pick<Clock, "afterTick">;
  /** The divided work under way, oldest first. Each resolves in the turn after its last one. */
  readonly #underWay = new Set<Promise<unknown>>();
  /** How many callers have been let continue in this turn of the event loop. */
  #continued = 0;
  /** Those that continue in later turns. */
  #delayed: { readonly callers: number; readonly go: () => void }[] = [];

  constructor(clock: Pick<Clock, "afterTick">) {
    this.clock = clock;
  }

  /** Returns what `run`, which never throws, makes of each item, `PER_TURN` in a turn, all of them in one tick. */
  map<Item, Result>(items: readonly Item[], run: (item: Item) => Result): Promise<Result[]> {
    // The first turn is part of the long tick as well.
    const mapped = RESOLVED.then(() => this.#map(items, run));
    this.lengthen(mapped);
    return mapped;
  }

  async #map<Item, Result>(items: readonly Item[], run: (item: Item) => Result): Promise<Result[]> {
    const results: Result[] = [];
    for (const item of items) {
      if (results.length > 0 && results.length % PER_TURN === 0) await nextTurn(this.clock, RESOLVED);
      results.push(run(item));
    }
    return results;
  }

  /** Makes the tick last until the turn that follows the end of `work`, which never rejects. */
  lengthen(work: Promise<unknown>): void {
    const over = nextTurn(this.clock, work);
    this.#underWay.add(over);
    void over.then(() => this.#underWay.delete(over));
  }

  /**
   * Calls `go`, which lets some callers continue, `PER_TURN` at most: in this turn of the event loop, unless it
   * would be one with more than `PER_TURN` of them, whatever they have waited for. Returns false if it will be
   * a later turn.
   */
  letContinue(callers: number, go: () => void): boolean {
    const isNow = this.#delayed.length === 0 && this.#fits(callers);
    if (isNow) this.#go(callers, go);
    else this.#delayed.push({ callers, go });
    return isNow;
  }

  #fits(callers: number): boolean {
    return this.#continued === 0 || this.#continued + callers <= PER_TURN;
  }

  #go(callers: number, go: () => void): void {
    if (this.#continued === 0) this.clock.afterTick(() => this.#continueDelayed());
    this.#continued += callers;
    go();
  }

  #continueDelayed(): void {
    this.#continued = 0;
    let next = 0;
    for (let group = this.#delayed[0]; group !== undefined && this.#fits(group.callers); group = this.#delayed[++next])
      this.#go(group.callers, group.go);
    this.#delayed.splice(0, next);
  }

  /**
   * Calls `fn` at the end of the tick. While there is divided work, that is when the oldest of it is done,
   * so that a sequence of such work does not delay `fn` for ever.
   */
  afterTick(fn: () => void): void {
    const [oldest] = this.#underWay;
    if (oldest === undefined) this.clock.afterTick(fn);
    else void oldest.then(fn);
  }
}

/**
 * How many keys or callers are worked on in one turn of the event loop. Each takes between a few and
 * fifty microseconds, so that a turn takes some milliseconds.
 */
export const PER_TURN = 500;

/** Resolves in the turn of the event loop after that in which `after` resolves, with the same. Rejects with it. */
export const nextTurn = <T>(clock: Pick<Clock, "afterTick">, after: Promise<T>): Promise<T> =>
  after.then((value) => new Promise((resolve) => clock.afterTick(() => resolve(value))));

/** Hands one outcome to any number of callers, of which `PER_TURN` continue in each turn of the event loop. */
export class Turns<T> {
  readonly #clock: Pick<Clock, "afterTick">;
  readonly #turns: [Promise<T>, ...Promise<T>[]];

  constructor(clock: Pick<Clock, "afterTick">, outcome: Promise<T>) {
    this.#clock = clock;
    this.#turns = [outcome];
  }

  /** Returns the outcome for the caller at `position`, which is 0 for the first. The first turn is the promise of the outcome itself. */
  of(position: number): Promise<T> {
    const turns = this.#turns;
    const nth = Math.floor(position / PER_TURN);
    while (turns.length <= nth) turns.push(nextTurn(this.#clock, turns.at(-1) as Promise<T>));
    return turns[nth] as Promise<T>;
  }

  /** The last turn. Undefined if there is only one. */
  get last(): Promise<T> | undefined {
    return this.#turns.length === 1 ? undefined : this.#turns.at(-1);
  }
}

/**
 * Hands one outcome to any number of waiters. They continue in groups, which share the turns of the event
 * loop with those of all other outcomes: see `LongTick.letContinue`.
 */
export class SharedOutcome<T> {
  readonly #longTick: LongTick;
  readonly #outcome: Promise<T>;
  #groups: { readonly turn: Deferred<void>; size: number }[] = [];
  #isKnown = false;

  constructor(longTick: LongTick, outcome: Promise<T>) {
    this.#longTick = longTick;
    this.#outcome = outcome;
    const letContinue = (): void => this.#letContinue();
    outcome.then(letContinue, letContinue);
  }

  /** Returns the outcome, in the turn of the event loop in which this waiter continues. */
  async get(): Promise<T> {
    if (this.#isKnown) return this.#outcome;
    let group = this.#groups.at(-1);
    if (group === undefined || group.size === PER_TURN) {
      group = { turn: new Deferred(), size: 0 };
      this.#groups.push(group);
    }
    group.size++;
    await group.turn.promise;
    return this.#outcome;
  }

  #letContinue(): void {
    this.#isKnown = true;
    const last = this.#groups.at(-1);
    let isDelayed = false;
    for (const { turn, size } of this.#groups) isDelayed = !this.#longTick.letContinue(size, () => turn.resolve());
    this.#groups = [];
    // What thousands of waiters do next counts as one tick, from the first of them on.
    if (isDelayed && last !== undefined) this.#longTick.lengthen(last.turn.promise);
  }
}

/**
 * Returns results of which `PER_TURN` are handed out in each turn of the event loop: the first ones as they
 * are, promises of the others. An Error rejects.
 */
export function inTurns<Result>(
  clock: Pick<Clock, "afterTick">,
  results: readonly Result[],
): (Result | Promise<Result>)[] {
  const handedOut: (Result | Promise<Result>)[] = results.slice(0, PER_TURN);
  let turn: Promise<unknown> = Promise.resolve();
  for (let at = PER_TURN; at < results.length; at++) {
    if (at % PER_TURN === 0) turn = nextTurn(clock, turn);
    const result = results[at] as Result;
    handedOut.push(turn.then(() => (result instanceof Error ? Promise.reject(result) : result)));
  }
  return handedOut;
}

const RESOLVED = Promise.resolve();
