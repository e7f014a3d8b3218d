import { CachedError } from "../base/errors.js";
import type { Key } from "../keys/key.js";
import type { Logger } from "../telemetry/log-listener.js";
import type { InvalidationNames } from "../tier/shared/unconfirmed-invalidations.js";
import { identityOfTarget } from "./identity.js";
import type { LoaderRule } from "./loader-options.js";

/** Reports an id that may be meant as another one. Throws what `keyOfLoader` throws. */
export function namesOfEntry(rule: LoaderRule, entry: NamedEntry, logger: Logger): InvalidationNames {
  const key = keyOfLoader(rule, entry);
  const doubt = rule.doubtOf(entry.id);
  if (doubt !== undefined)
    logger.warn(
      `graphql-cached: invalidation of ${rule.kind.noun} \`${rule.name}\`: \`${propertyOf(rule)}\`: ${doubt}`,
    );
  return { keys: [key], tags: [] };
}

/** Returns the key that `entry` names. Throws `CACHED_KEY_UNUSABLE` if there is none. */
export function keyOfLoader(rule: LoaderRule, entry: NamedEntry): Key {
  const { name, policy, kind } = rule;
  const { noun } = kind;
  const { id } = entry;
  const property = propertyOf(rule);
  const reject = (mistake: string, cause?: unknown): never => {
    throw new CachedError("CACHED_KEY_UNUSABLE", `${noun} \`${name}\`: ${mistake}`, {
      coordinate: name,
      ...(cause === undefined ? {} : { cause }),
    });
  };
  if (id === undefined)
    reject(
      `\`${property}\`: expected the ${property} of the entry, got nothing; pass it, or \`${noun}\` alone to invalidate every entry`,
    );
  const identity = identityOfTarget(entry, { coordinate: name, policy }, noun);
  try {
    return rule.keyOf(id, identity);
  } catch (cause) {
    if (cause instanceof CachedError && cause.code === "CACHED_OPTION_INVALID") throw cause;
    return reject(
      `\`${property}\`: expected an ${kind.input} from which a key can be made, got one for which ${cause instanceof CachedError ? `there is none: ${cause.message}` : `\`${kind.key}\` threw an exception, the cause of this error`}`,
      cause,
    );
  }
}

/** An id, or the list of arguments of a call, and the identity that the entry belongs to. */
export interface NamedEntry {
  readonly id?: unknown;
  readonly private?: unknown;
}

/** What holds the id in a target. */
const propertyOf = ({ kind }: LoaderRule): "id" | "args" => (kind.noun === "loader" ? "id" : "args");
