/** Who is asking, as far as a key needs to know. */
export type Identity = string | number | bigint;

/**
 * Asks `identify` who is asking. Undefined where that is not known for certain: no answer, an empty or odd one, a promise, or an error.
 * Nothing private is ever cached for somebody unknown.
 */
export function identityOf(
  identify: ((context: never) => unknown) | undefined,
  context: unknown,
): Identity | undefined {
  try {
    const identity = identify?.(context as never);
    if (typeof identity === "string") return identity === "" ? undefined : identity;
    if (typeof identity === "number") return Number.isFinite(identity) ? identity : undefined;
    return typeof identity === "bigint" ? identity : undefined;
  } catch {
    return undefined;
  }
}
