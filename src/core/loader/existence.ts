import { type Clock, outsideOfRequests, within } from "../base/clock.js";
import { ignoreRejection } from "../base/deferred.js";
import type { LongTick } from "../tier/tick/long-tick.js";
import { TickBatch } from "../tier/tick/tick-batch.js";

/**
 * Returns a function that checks one id. The checks of a tick are one call of the guard. If it
 * fails, returns another number of answers, changes the list of ids, or takes too long, the ids are
 * assumed to exist. Ids that are asked for during a call belong to the next one, so that no answer
 * is older than the question.
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
  /** How long a miss waits at most for what is not its own load. */
  readonly leaseWaitMs: number;
  readonly isProduction: boolean;
}

/**
 * Returns a copy for a function of the user, which may change it. `isFrozen`: it cannot, and throws
 * at the place of the mistake.
 */
export const givenIds = <Id>(ids: readonly Id[], isFrozen: boolean): readonly Id[] =>
  isFrozen ? Object.freeze(ids.slice()) : ids.slice();
