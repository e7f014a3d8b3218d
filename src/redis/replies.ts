/** The answer of TIME, in milliseconds. */
export function readTime(reply: unknown): number {
  const [seconds, micros] = reply as [Buffer, Buffer];
  return Number(seconds.toString()) * 1000 + Math.floor(Number(micros.toString()) / 1000);
}

/** Rethrows the first error where every reply is one: the store as a whole did not answer. */
export function throwIfAllFailed(replies: readonly unknown[]): void {
  if (replies.length > 0 && replies.every((reply) => reply instanceof Error)) throw replies[0] as Error;
}

/** Rethrows the first error there is: for what somebody must know to be done. */
export function throwIfAnyFailed(replies: readonly unknown[]): void {
  const failed = replies.find((reply) => reply instanceof Error);
  if (failed !== undefined) throw failed as Error;
}
