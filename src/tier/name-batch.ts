/** The names of one group that were added since the last call. */
interface Pending<Result> {
  /** The names, each once, with their positions. */
  readonly positions: Map<string, number>;
  readonly results: Promise<readonly Result[]>;
  settle(results: Promise<readonly Result[]>): void;
}

/**
 * Like TickBatch, for callers that each have several names and continue one after the other, when a
 * batch of reads or loads has ended: collects their names and runs them in one call for each group,
 * every name once. A caller gets one promise, not one for each name, since a list of a thousand members
 * has a thousand tags.
 */
export class NameBatch<Group, Result> {
  readonly #run: (group: Group, names: readonly string[]) => Promise<readonly Result[]>;
  #pending = new Map<Group, Pending<Result>>();

  /**
   * `run` returns results in the order and length of its names; if it rejects, all callers of its
   * group do.
   */
  constructor(run: (group: Group, names: readonly string[]) => Promise<readonly Result[]>) {
    this.#run = run;
  }

  /** Returns the results in the order and length of `names`. */
  async add(group: Group, names: readonly string[]): Promise<readonly Result[]> {
    const { positions, results } = this.#pendingOf(group);
    for (const name of names) if (!positions.has(name)) positions.set(name, positions.size);
    const all = await results;
    return names.map((name) => all[positions.get(name) as number] as Result);
  }

  #pendingOf(group: Group): Pending<Result> {
    const existing = this.#pending.get(group);
    if (existing !== undefined) return existing;
    // They all continue in one pass over the microtasks, and this one comes after them.
    if (this.#pending.size === 0) queueMicrotask(() => this.#flush());
    let settle: (results: Promise<readonly Result[]>) => void = () => undefined;
    const results = new Promise<readonly Result[]>((resolve) => {
      settle = resolve;
    });
    const pending = { positions: new Map<string, number>(), results, settle };
    this.#pending.set(group, pending);
    return pending;
  }

  #flush(): void {
    const batches = this.#pending;
    this.#pending = new Map();
    for (const [group, { positions, settle }] of batches) settle(this.#run(group, [...positions.keys()]));
  }
}
