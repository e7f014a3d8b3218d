import type { Entry } from "./entry.js";

/**
 * A reading of a key whose node has replied.
 *
 * This is a class, like everything else of which each hit makes one. Object literals are a risk there: if most of
 * those made in one place survive a large tick, V8 goes on to allocate them in the old generation, where they keep
 * alive whatever they refer to until the next full garbage collection. That doubled the cost of hits.
 */
export class EntryReading {
  readonly kind = "read";
  /** Undefined if the key is absent. */
  readonly entry: Entry | undefined;
  /** The time on the clock of the node. */
  readonly now: number;

  constructor(entry: Entry | undefined, now: number) {
    this.entry = entry;
    this.now = now;
  }
}
