import type { Clock } from "../clock.js";

/**
 * Collects what is asked for in one tick of this process, whoever asks, and has it done in one call at the tick's end.
 * Two items with the same `idOf` are done once; an item that comes while a call is under way belongs to the next one, so nobody is ever given
 * what was looked up before he asked.
 */
export class TickBatch<Item, Result> {
  readonly #clock: Clock;
  readonly #run: (items: readonly Item[]) => Promise<readonly Result[]>;
  readonly #idOf: ((item: Item) => string) | undefined;
  #waiting: {
    readonly item: Item;
    readonly id: string;
    readonly result: Promise<Result>;
    settle(of: Promise<Result>): void;
  }[] = [];

  /** `run` answers in the order and length of its items; if it rejects, all its items do. */
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
    const same = this.#idOf === undefined ? undefined : this.#index.get(id);
    if (same !== undefined) return same;
    if (this.#waiting.length === 0) this.#clock.afterTick(() => this.#flush());
    let settle: (of: Promise<Result>) => void = () => undefined;
    const result = new Promise<Result>((resolve) => {
      settle = resolve;
    });
    this.#waiting.push({ item, id, result, settle });
    if (this.#idOf !== undefined) this.#index.set(id, result);
    return result;
  }

  readonly #index = new Map<string, Promise<Result>>();

  #flush(): void {
    const batch = this.#waiting;
    this.#waiting = [];
    this.#index.clear();
    const results = this.#run(batch.map(({ item }) => item));
    for (const [index, { settle }] of batch.entries()) settle(results.then((all) => all[index] as Result));
  }
}
