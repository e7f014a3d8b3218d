/** The reads after which a selection is first judged. Fewer would be those of a process or a store that has just started. */
export const MIN_READS = 1_000;
/** The reads of a later trial. All counts are halved at twice as many as they are judged by, so that old ones weigh less. */
export const TRIAL_READS = 200;
/** How many requests of a selection that does not pay are cached field by field until it is tried again. */
export const PASSED = 19 * TRIAL_READS;
/**
 * How many hits pay for a build, by the page of `bench/scenarios/subtrees.ts`. A hit saves about 0.6 ms of CPU there. A build of what was stored
 * before takes 1.3 ms more than the fields, which are stored. One of what nobody has asked for takes 0.7 ms more than the same without.
 */
export const HITS_FOR = { rebuilt: 2, new: 1 } as const;

/** What a read has come to: `rebuilt` if there is an entry that could not be served, `new` if there was none. */
export type SubtreeRead = "hit" | keyof typeof HITS_FOR;

/**
 * Decides whether the subtrees of a selection pay: a build costs more than an execution, and is paid for by the hits that
 * follow. A selection that does not pay is cached field by field, and tried again now and then. It is tried for many requests in a row: with single ones,
 * there would be no entries to hit.
 */
export class HitRatio {
  #reads = 0;
  /** Hits without those that were needed to pay for builds. */
  #gain = 0;
  #judgedAt = MIN_READS;
  /** Requests since it has turned out not to pay. Undefined: it is read as a subtree. */
  #passed: number | undefined = undefined;

  get isPaying(): boolean {
    return this.#passed === undefined;
  }

  /** Whether the next request reads it as a subtree. */
  admits(): boolean {
    if (this.#passed === undefined) return true;
    if (this.#passed++ < PASSED) return false;
    this.#passed = undefined;
    this.#reads = 0;
    this.#gain = 0;
    this.#judgedAt = TRIAL_READS;
    return true;
  }

  /** Counts a read. `share`: what part of one it is; those of the objects of a list are one together, as few lists would be soon judged by many objects. */
  add(read: SubtreeRead, share = 1): void {
    this.#reads += share;
    this.#gain += share * (read === "hit" ? 1 : -HITS_FOR[read]);
    if (this.#reads < this.#judgedAt) return;
    if (this.#gain < 0) this.#passed ??= 0;
    if (this.#reads < 2 * this.#judgedAt) return;
    this.#reads /= 2;
    this.#gain /= 2;
  }
}
