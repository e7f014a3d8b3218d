/**
 * Returns the ids that a function of the user gets: a list of its own, which it can change without
 * effect on what the cache takes its results for. `isFrozen`: it cannot sort or shorten them, which
 * throws at the place of the mistake.
 */
export const givenIds = <Id>(ids: readonly Id[], isFrozen: boolean): readonly Id[] =>
  isFrozen ? Object.freeze(ids.slice()) : ids.slice();
