import type { LongTick } from "../tier/long-tick.js";
import { TickBatch } from "../tier/tick-batch.js";

/** Knows which ids cannot exist, for example a `bloomGuard`. */
export interface ExistenceGuard<Id> {
  /**
   * Returns one boolean per id, in their order: false if there is no such id, and true if there is one or
   * if it is not known.
   */
  has(ids: readonly Id[]): PromiseLike<readonly boolean[]>;
}

/**
 * Returns a function that checks one id. The checks of a tick are one call of the guard. If it fails or skips
 * an id, the id is assumed to exist. An id that is asked for while a call runs belongs to the next one, so
 * the answer is never older than the question.
 */
export function batchExistence<Id>(guard: ExistenceGuard<Id>, longTick: LongTick): (id: Id) => Promise<boolean> {
  const batch = new TickBatch<Id, boolean>(longTick, async (ids) => guard.has(ids), undefined, longTick);
  return (id) =>
    batch.add(id).then(
      (isPresent) => isPresent !== false,
      () => true,
    );
}
