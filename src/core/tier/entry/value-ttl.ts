import type { Policy } from "../../policy/policy.js";

/**
 * Returns how long the store keeps a value. Undefined: it never expires. Lengthened by a random share,
 * so that a server does not have to drop values that were stored together all at once. The age of a
 * value, not its presence, decides whether it is served. Whole milliseconds, as stores expect them.
 */
export const valueTtlMs = (policy: Policy, maxAgeMs: number, random: number): number | undefined =>
  policy.neverExpires
    ? undefined
    : Math.ceil(
        maxAgeMs * (1 + policy.jitterRatio * random) + Math.max(policy.staleWhileRevalidateMs, policy.staleIfErrorMs),
      );
