import { CachedError, describeSetting } from "../../base/errors.js";
import type { PolicySettings } from "../../policy/policy.js";

/** Where a policy of the option `policies` was written, in messages. */
export const POLICIES = "policies";

/** The option `policies` of `applyCached`. */
export type PoliciesOption = Readonly<Record<string, PolicySettings | undefined>>;

/**
 * Returns the policies of the option by coordinate. What is wrong with one of them is found where those of directives are.
 * Throws `CACHED_OPTION_INVALID` for an option that is no object.
 */
export function resolvePolicies(given: unknown): ReadonlyMap<string, PolicySettings> {
  if (given === undefined) return new Map();
  if (typeof given !== "object" || given === null || Array.isArray(given))
    throw new CachedError(
      "CACHED_OPTION_INVALID",
      `applyCached: \`policies\`: expected an object of policies by coordinate, such as { "Query.movie": { maxAge: 60 } }, got ${describeSetting(given)}`,
    );
  return new Map(Object.entries(given).filter(([, policy]) => policy !== undefined) as [string, PolicySettings][]);
}
