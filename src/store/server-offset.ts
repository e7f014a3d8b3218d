/** A server's time minus our own, as far as its answers have shown. */
export interface ServerOffset {
  readonly ms: number;
  readonly learnedAt: number;
}

/**
 * What an answer that says `serverNow`, read at `ownNow`, adds to what was `known`.
 *
 * An answer that lay unread while this process was busy makes the offset look smaller than it is, and so does a server that counts in whole
 * seconds: the greatest counts, forgotten by a thousandth of the time that passes, which is faster than clocks drift apart.
 */
export function learnOffset(known: ServerOffset | undefined, serverNow: number, ownNow: number): ServerOffset {
  const faded = known === undefined ? Number.NEGATIVE_INFINITY : known.ms - (ownNow - known.learnedAt) / 1000;
  return { ms: Math.max(serverNow - ownNow, faded), learnedAt: ownNow };
}
