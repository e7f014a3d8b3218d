/** For a store of several servers: one server that fails costs its own keys, and the operation rejects if all did. */
export function throwIfAllFailed(answers: readonly unknown[]): void {
  if (answers.length > 0 && answers.every((answer) => answer instanceof Error)) throw answers[0] as Error;
}

/** For what must be true everywhere. */
export function throwIfAnyFailed(answers: readonly unknown[]): void {
  const failed = answers.find((answer) => answer instanceof Error);
  if (failed !== undefined) throw failed as Error;
}

/** What was thrown, as the Error that stands in an answer's place. */
export const asError = (thrown: unknown): Error => (thrown instanceof Error ? thrown : new Error(String(thrown)));
