/** What several servers, or several names of one, have answered: an Error where something failed. */

/** Throws the first error if all failed. For operations where the failure of one server affects only its own keys. */
export function throwIfAllFailed(results: readonly unknown[]): void {
  if (results.length > 0 && results.every((result) => result instanceof Error)) throw results[0] as Error;
}

/** Throws the first error. For operations that must succeed on every server. */
export function throwIfAnyFailed(results: readonly unknown[]): void {
  const failed = results.find((result) => result instanceof Error);
  if (failed !== undefined) throw failed as Error;
}

/** Wraps a thrown value in an Error, unless it is one. */
export const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));
