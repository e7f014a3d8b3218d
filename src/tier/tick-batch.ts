import type { Clock } from "../clock.js";

/**
 * Collects the items added in one tick of this process and runs them in one call at the end of the
 * tick. Items with the same `idOf` are run once. An item that is added while a call is running
 * belongs to the next one, so its result is never older than its request.
 */
export class TickBatch<Item, Result> {
  readonly #clock: Clock;
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #idOf: ((item: Item) => string) | undefined;
  #pending: {
    readonly item: Item;
    readonly id: string;
    readonly result: Promise<Result>;
    settle(result: Promise<Result>): void;
  }[] = [];
  /** The pending results by id. */
  readonly #byId = new Map<string, Promise<Result>>();

  /**
   * `run` returns results in the order and length of its items; if it rejects, all its items do.
   */
  constructor(
    clock: Clock,
    run: (items: readonly Item[]) => Promise<readonly Result[]>,
    idOf?: (item: Item) => string,
  ) {
    this.#clock = clock;
    this.#run = run;
    this.#idOf = idOf;
  }

  add(item: Item): Promise<Result> {
    const id = this.#idOf?.(item) ?? "";
    const same = this.#idOf === undefined ? undefined : this.#byId.get(id);
    if (same !== undefined) return same;
    if (this.#pending.length === 0) this.#clock.afterTick(() => this.#flush());
    let settle: (result: Promise<Result>) => void = () => undefined;
    const result = new Promise<Result>((resolve) => {
      settle = resolve;
    });
    this.#pending.push({ item, id, result, settle });
    if (this.#idOf !== undefined) this.#byId.set(id, result);
    return result;
  }

  #flush(): void {
    const batch = this.#pending;
    this.#pending = [];
    this.#byId.clear();
    const results = this.#run(batch.map(({ item }) => item));
    for (const [index, { settle }] of batch.entries()) settle(results.then((all) => all[index] as Result));
  }
}
