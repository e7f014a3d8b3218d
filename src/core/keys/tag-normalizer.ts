import { types } from "node:util";
import { ignoreRejection } from "../base/deferred.js";
import { describeSetting } from "../base/errors.js";

export type TagNormalizer = (tag: string) => string;

/**
 * Returns the function of the option `normalizeTag`, which returns tags as they are if the option throws or returns no
 * tag: an invalidation must not fail because of it. `report` gets what is wrong.
 */
export function tagNormalizer(normalize: TagNormalizer, report: (problem: string) => void): TagNormalizer {
  return (tag) => {
    let problem: string;
    try {
      const normalized: unknown = normalize(tag);
      if (typeof normalized === "string" && normalized !== "") return normalized;
      ignoreRejection(normalized);
      problem = types.isPromise(normalized) ? "a promise" : describeSetting(normalized);
    } catch {
      problem = "an exception";
    }
    report(
      `createCache: \`invalidation.normalizeTag\`: expected a function that returns a non-empty string, got ${problem}; until then such tags count as they are`,
    );
    return tag;
  };
}
