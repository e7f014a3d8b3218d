import { CachedError } from "../errors.js";
import type { Key } from "../keys/key.js";
import { identityOf } from "../loader/identity.js";
import type { CacheParts } from "../parts.js";
import { coerceArgs, type FieldRule, keyOf } from "./field-rule.js";
import { appliedRules } from "./wrap-fields.js";

/** What names one entry of a field from outside of a request. */
export interface CoordinateTarget {
  readonly coordinate: string;
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  readonly source?: unknown;
  readonly context?: unknown;
  readonly private?: unknown;
}

/**
 * The key that a request would make for this field, these arguments and this identity.
 * Errors: `CACHED_COORDINATE_UNKNOWN` if no applied schema caches the field, `CACHED_KEY_UNUSABLE` if something is missing or does not fit.
 */
export function keyOfCoordinate(
  parts: CacheParts,
  target: CoordinateTarget,
): { readonly key: Key; readonly rule: FieldRule } {
  const { coordinate } = target;
  const { fields } = appliedRules(parts);
  const rule = fields.get(coordinate);
  if (rule === undefined)
    throw new CachedError(
      "CACHED_COORDINATE_UNKNOWN",
      `\`${coordinate}\` was expected to be a cached field of a schema given to applyCached; there are ${[...fields.keys()].join(", ") || "none"}`,
      { coordinate },
    );
  const identity = identityOf(() => target.private, undefined);
  if (rule.policy.scope === "PRIVATE" && identity === undefined)
    throw new CachedError(
      "CACHED_KEY_UNUSABLE",
      `\`${coordinate}\` is PRIVATE: say whose entry is meant with \`private\``,
      { coordinate },
    );
  const roots = {
    args: coerceArgs(rule, target.args ?? {}),
    source: target.source,
    context: target.context,
    info: undefined,
  };
  return { key: keyOf(rule, roots, rule.policy.scope === "PRIVATE" ? identity : undefined, parts.keys), rule };
}
