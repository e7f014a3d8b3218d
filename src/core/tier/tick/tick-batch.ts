import type { Clock } from "../../base/clock.js";
import { inTurn, type LongTick, PER_TURN, type Turns } from "./long-tick.js";

/**
 * Collects the items added in one tick of this process and runs them in one call at the end of the
 * tick. An item that is added while a call is running belongs to the next one, so its result is
 * never older than its request.
 */
export class TickBatch<Item, Result> {
  #batch: Batch<Item, Result> | undefined;

  /**
   * `run` returns results in the order and length of its items; if it rejects, all its items do.
   * `clock` says when a tick ends. With `longTick`, thousands of callers continue in several turns
   * of the event loop, which make one long tick.
   */
  constructor(
    private readonly clock: Pick<Clock, "afterTick">,
    private readonly run: (items: readonly Item[]) => Promise<readonly Result[]>,
    private readonly longTick?: LongTick,
  ) {}

  add(item: Item): Promise<Result> {
    return this.addThen(item, (result) => result);
  }

  /** Resolves to what `use` makes of the result, in the asynchronous context of this call. */
  addThen<Used>(item: Item, use: (result: Result) => Used | PromiseLike<Used>): Promise<Used> {
    this.#batch ??= this.#begin();
    const batch = this.#batch;
    const position = batch.items.push(item) - 1;
    return batch.outcome.then((results) => inTurn(batch.turns, position, () => use(results[position] as Result)));
  }

  #begin(): Batch<Item, Result> {
    const items: Item[] = [];
    const outcome = new Promise<readonly Result[]>((resolve) =>
      this.clock.afterTick(() => {
        this.#batch = undefined;
        const results = this.run(items);
        resolve(items.length <= PER_TURN ? results : this.#divide(batch, results));
      }),
    );
    const batch: Batch<Item, Result> = { items, outcome, turns: undefined };
    return batch;
  }

  async #divide(batch: Batch<Item, Result>, running: Promise<readonly Result[]>): Promise<readonly Result[]> {
    const results = await running;
    batch.turns = this.longTick?.turnsFor(batch.items.length);
    return results;
  }
}

interface Batch<Item, Result> {
  readonly items: Item[];
  readonly outcome: Promise<readonly Result[]>;
  /** Undefined: all callers continue in one turn of the event loop. */
  turns: Turns | undefined;
}
