import type { Clock } from "../../base/clock.js";
import { type LongTick, PER_TURN, Turns } from "./long-tick.js";

/**
 * Collects the items added in one tick of this process and runs them in one call at the end of the
 * tick. Items with the same `idOf` are run once. An item that is added while a call is running
 * belongs to the next one, so its result is never older than its request.
 */
export class TickBatch<Item, Result> {
  readonly #clock: Pick<Clock, "afterTick">;
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #idOf: ((item: Item) => string) | undefined;
  readonly #longTick: LongTick | undefined;
  #pending: Pending<Item, Result> | undefined;

  /**
   * `run` returns results in the order and length of its items; if it rejects, all its items do. `clock` says when a tick
   * ends. With `longTick`, thousands of callers continue in several turns of the event loop, which make one long tick.
   */
  constructor(
    clock: Pick<Clock, "afterTick">,
    run: (items: readonly Item[]) => Promise<readonly Result[]>,
    idOf?: (item: Item) => string,
    longTick?: LongTick,
  ) {
    this.#clock = clock;
    this.#run = run;
    this.#idOf = idOf;
    this.#longTick = longTick;
  }

  add(item: Item): Promise<Result> {
    return this.addThen(item, (result) => result);
  }

  /** Adds an item, and resolves to what `use` makes of its result, which is called in the asynchronous context of this call. */
  addThen<Used>(item: Item, use: (result: Result) => Used | PromiseLike<Used>): Promise<Used> {
    this.#pending ??= this.#ofTick();
    const pending = this.#pending;
    const { items, positions, outcome } = pending;
    const id = this.#idOf?.(item);
    const position = (id === undefined ? undefined : positions.get(id)) ?? items.push(item) - 1;
    if (id !== undefined) positions.set(id, position);
    if (position < PER_TURN || this.#longTick === undefined) return outcome.then((all) => use(all[position] as Result));
    pending.turns ??= new Turns(this.#longTick.clock, outcome);
    return pending.turns.of(position).then((all) => use(all[position] as Result));
  }

  #ofTick(): Pending<Item, Result> {
    const outcome = new Promise<readonly Result[]>((resolve) =>
      this.#clock.afterTick(() => {
        this.#pending = undefined;
        const results = this.#run(pending.items);
        resolve(pending.turns === undefined ? results : this.#lengthenFor(pending.turns, results));
      }),
    );
    const pending: Pending<Item, Result> = { items: [], positions: new Map(), outcome, turns: undefined };
    return pending;
  }

  async #lengthenFor<Results>(turns: Turns<unknown>, running: Promise<Results>): Promise<Results> {
    const results = await running;
    if (turns.last !== undefined) this.#longTick?.lengthen(turns.last);
    return results;
  }
}

/** What was added in the current tick, and what comes of it. */
interface Pending<Item, Result> {
  readonly items: Item[];
  /** The positions of the items by id. */
  readonly positions: Map<string, number>;
  readonly outcome: Promise<readonly Result[]>;
  /** What hands the results to thousands of callers. Undefined: all of them continue in one turn of the event loop. */
  turns: Turns<readonly Result[]> | undefined;
}
