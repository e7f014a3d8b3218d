import { type Clock, outsideOfRequests, within } from "../base/clock.js";
import { ignoreRejection } from "../base/deferred.js";
import type { LongTick } from "../tier/tick/long-tick.js";
import { TickBatch } from "../tier/tick/tick-batch.js";
import { givenIds } from "./given-ids.js";

/**
 * Returns a function that checks one id. The checks of a tick are one call of the guard. If it
 * fails, returns fewer or more answers, changes the list of ids, or exceeds the time limit, the ids
 * are assumed to exist. An id that is asked for while a call runs belongs to the next one, so the
 * answer is never older than the question.
 */
export function batchExistence<Id>(
  guard: ExistenceGuard<Id>,
  { clock, longTick, leaseWaitMs, isProduction }: ExistenceParts,
): (id: Id) => Promise<boolean> {
  const ask = async (ids: readonly Id[]): Promise<readonly boolean[]> => {
    const given = givenIds(ids, !isProduction);
    const answers = await guard.has(given);
    // Each may be a promise, which says nothing.
    for (const answer of answers) ignoreRejection(answer);
    const isUnchanged = given.length === ids.length && given.every((id, index) => Object.is(id, ids[index]));
    return isUnchanged && answers.length === ids.length ? answers : [];
  };
  const batch = new TickBatch<Id, boolean>(
    longTick,
    (ids) => outsideOfRequests.runInAsyncScope(() => within(clock, ask(ids), { ms: leaseWaitMs, otherwise: () => [] })),
    longTick,
  );
  return (id) =>
    batch.add(id).then(
      (isPresent) => isPresent !== false,
      () => true,
    );
}

/** Knows which ids cannot exist, for example a `bloomGuard`. */
export interface ExistenceGuard<Id> {
  /**
   * Returns one boolean per id, in their order: false if there is no such id, and true if there is
   * one or if it is not known. The answer must depend on the ids only: it is for all requests of a
   * tick, and the call runs outside of the asynchronous context of any of them. An answer that
   * takes longer than `leaseWaitMs` does not count.
   */
  has(ids: readonly Id[]): PromiseLike<readonly boolean[]>;
}

export interface ExistenceParts {
  readonly clock: Clock;
  readonly longTick: LongTick;
  readonly leaseWaitMs: number;
  readonly isProduction: boolean;
}
