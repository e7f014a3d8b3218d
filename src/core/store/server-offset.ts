/** A server's clock minus the clock of this process, as estimated from the server's replies. */
export interface ServerOffset {
  readonly ms: number;
  /** When the last reply was read, on the clock of this process. */
  readonly learnedAt: number;
}

/**
 * Updates the estimate `known` with a reply that says `serverNow` and was read at `ownNow`.
 *
 * A reply that stayed unread while this process was busy makes the offset look smaller than it is,
 * and so does a server that counts whole seconds. The estimate is therefore the largest offset
 * seen. It decays by a thousandth of the elapsed time, which is faster than clocks drift apart.
 */
export function learnOffset(known: ServerOffset | undefined, serverNow: number, ownNow: number): ServerOffset {
  const decayedMs = known === undefined ? Number.NEGATIVE_INFINITY : known.ms - (ownNow - known.learnedAt) / 1000;
  return { ms: Math.max(serverNow - ownNow, decayedMs), learnedAt: ownNow };
}
