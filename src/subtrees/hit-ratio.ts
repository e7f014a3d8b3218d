/** The reads after which a selection is judged. */
const MIN_READS = 50;
/** Both counts are halved at this, so that old ones weigh less. */
const MAX_READS = 400;
/** The share of hits at which a selection pays, by the page of `bench/scenarios/subtrees.ts`. */
const MIN_RATIO = 0.5;
/** One of so many requests of a selection that does not pay is read as a subtree. */
const TRIED = 20;

/**
 * Decides whether the subtrees of a selection pay: a build costs more than an execution, and is paid for by the hits that
 * follow. A selection that does not pay is cached field by field, and tried again now and then.
 */
export class HitRatio {
  #reads = 0;
  #hits = 0;
  #passed = 0;

  /** Whether the next request reads it as a subtree. */
  admits(): boolean {
    if (this.isPaying) return true;
    this.#passed++;
    return this.#passed % TRIED === 0;
  }

  get isPaying(): boolean {
    return this.#reads < MIN_READS || this.#hits >= MIN_RATIO * this.#reads;
  }

  /** Counts a read. */
  add(isHit: boolean): void {
    this.#reads++;
    if (isHit) this.#hits++;
    if (this.#reads < MAX_READS) return;
    this.#reads /= 2;
    this.#hits /= 2;
  }
}
