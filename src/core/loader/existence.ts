import { type Clock, outsideOfRequests, within } from "../base/clock.js";
import { ignoreRejection } from "../base/deferred.js";
import { describeSetting } from "../base/errors.js";
import { errorTypeOf } from "../telemetry/error-type.js";
import type { Logger } from "../telemetry/log-listener.js";
import type { LongTick } from "../tier/tick/long-tick.js";
import { TickBatch } from "../tier/tick/tick-batch.js";

/**
 * Returns a function that checks one id. The checks of a tick are one call of the guard. If it
 * fails, returns another number of answers, changes the list of ids, or takes too long, the ids are
 * assumed to exist. Ids that are asked for during a call belong to the next one, so that no answer
 * is older than the question. `place`: where the guard was given, for the log.
 */
export function batchExistence<Id>(
  guard: ExistenceGuard<Id>,
  place: string,
  { clock, longTick, leaseWaitMs, isProduction, onceLog }: ExistenceParts,
): (id: Id) => Promise<boolean> {
  /** Whether it is written as it should be, so that it fails for reasons of its store. */
  let hasAnswered = false;
  const report = (got: string): void =>
    onceLog.warn(
      `graphql-cached: ${place}: expected \`has\` to return an array with true or false for each id, in their order, got ${got}; meanwhile ids count as existing; return true where the answer is not known`,
    );
  const ask = async (ids: readonly Id[]): Promise<readonly boolean[]> => {
    const given = givenIds(ids, !isProduction);
    let answers: unknown;
    try {
      answers = await guard.has(given);
      // Each may be a promise, which says nothing.
      if (isIterable(answers)) for (const answer of answers) ignoreRejection(answer);
    } catch (error) {
      const type = errorTypeOf(error);
      if (!hasAnswered && !AWAY.test(type)) report(`an exception (${type})`);
      return [];
    }
    const isUnchanged = given.length === ids.length && given.every((id, index) => Object.is(id, ids[index]));
    const problem = isUnchanged ? problemOf(answers, ids.length) : "a list of ids that it has changed";
    if (problem === undefined) hasAnswered = true;
    else report(problem);
    return isUnchanged && Array.isArray(answers) && answers.length === ids.length ? answers : [];
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

/** The types of errors that say that a store cannot be reached, or is too slow. */
const AWAY = /^E[A-Z0-9]+$|UNAVAILABLE|T(?:IMEOUT|imeout)/;

const isIterable = (value: unknown): value is Iterable<unknown> =>
  typeof value === "object" && value !== null && Symbol.iterator in value;

/** Returns what a guard has returned in the place of answers for `count` ids. */
function problemOf(answers: unknown, count: number): string | undefined {
  if (!Array.isArray(answers)) return typeIn(answers);
  if (answers.length !== count) return "an array of another length";
  // A hole counts as well.
  const wrong = answers.findIndex((answer) => typeof answer !== "boolean");
  return wrong < 0 ? undefined : `an array with ${typeIn(answers[wrong])}`;
}

/** Not the value itself: it can be a row of a database. */
const typeIn = (value: unknown): string =>
  typeof value === "object" || value === undefined ? describeSetting(value) : `a ${typeof value}`;

/** Knows which ids cannot exist, for example a `bloomGuard`. */
export interface ExistenceGuard<Id> {
  /**
   * Returns one boolean per id, in their order: false if there is no such id, and true if there is
   * one or if it is not known. The answer must depend on the ids only: it is for all requests of a
   * tick, and the call runs outside of the asynchronous context of any of them. An answer that
   * takes longer than `leaseWaitMs` does not count. Anything but such a list is logged once.
   */
  has(ids: readonly Id[]): PromiseLike<readonly boolean[]>;
}

export interface ExistenceParts {
  readonly clock: Clock;
  readonly longTick: LongTick;
  /** How long a miss waits at most for what is not its own load. */
  readonly leaseWaitMs: number;
  readonly isProduction: boolean;
  /** Logs each line once. */
  readonly onceLog: Logger;
}

/** Returns a copy for a function of the user. `isFrozen`: it throws where that changes it. */
export const givenIds = <Id>(ids: readonly Id[], isFrozen: boolean): readonly Id[] =>
  isFrozen ? Object.freeze(ids.slice()) : ids.slice();
