import type { Clock } from "../../base/clock.js";
import { Deferred } from "../../base/deferred.js";
import { type LongTick, Turns } from "./long-tick.js";

/** What was added in the current tick, and what comes of it. */
interface Pending<Item, Result> {
  readonly items: Item[];
  /** The positions of the items by id. */
  readonly positions: Map<string, number>;
  readonly outcome: Deferred<readonly Result[]>;
  /** What hands the results to thousands of callers. Undefined: all of them continue in one turn of the event loop. */
  readonly turns: Turns<readonly Result[]> | undefined;
}

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
    const pending = this.#ofTick();
    const position = this.#place(item, pending);
    const turn = pending.turns?.of(position) ?? pending.outcome.promise;
    return turn.then((all) => use(all[position] as Result));
  }

  /**
   * Adds several items. Returns one promise of all their results, in the same order: a read has
   * thousands of keys, and a list of a thousand members as many tags.
   */
  async addAll(items: readonly Item[]): Promise<readonly Result[]> {
    const pending = this.#ofTick();
    const positions = items.map((item) => this.#place(item, pending));
    const all = await pending.outcome.promise;
    return positions.map((position) => all[position] as Result);
  }

  #ofTick(): Pending<Item, Result> {
    if (this.#pending !== undefined) return this.#pending;
    const outcome = new Deferred<readonly Result[]>();
    const turns = this.#longTick && new Turns(this.#longTick.clock, outcome.promise);
    this.#pending = { items: [], positions: new Map(), outcome, turns };
    this.#clock.afterTick(() => this.#flush());
    return this.#pending;
  }

  /** Returns the position of an item, which is added unless the same one has been. */
  #place(item: Item, { items, positions }: Pending<Item, Result>): number {
    if (this.#idOf !== undefined) {
      const id = this.#idOf(item);
      const same = positions.get(id);
      if (same !== undefined) return same;
      positions.set(id, items.length);
    }
    return items.push(item) - 1;
  }

  #flush(): void {
    const { items, turns, outcome } = this.#pending as Pending<Item, Result>;
    this.#pending = undefined;
    this.#run(items).then(
      (results) => {
        if (turns?.last !== undefined) this.#longTick?.lengthen(turns.last);
        outcome.resolve(results);
      },
      (error: unknown) => outcome.reject(error),
    );
  }
}
