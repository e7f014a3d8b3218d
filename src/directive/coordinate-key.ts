import { CachedError } from "../errors.js";
import type { Key } from "../keys/key.js";
import { identityOf } from "../loader/identity.js";
import type { CacheParts } from "../parts.js";
import type { FieldRule } from "../schema-rules.js";
import { coerceArgs, keyOf } from "./field-rule.js";

/** Identifies one entry of a field outside of a request. */
export interface CoordinateTarget {
  readonly coordinate: string;
  readonly args?: Readonly<Record<string, unknown>> | undefined;
  readonly source?: unknown;
  readonly context?: unknown;
  readonly private?: unknown;
}

/**
 * Returns the key that a request would use for this field, these arguments and this identity.
 * Throws `CACHED_COORDINATE_UNKNOWN` if no applied schema caches the field, and
 * `CACHED_KEY_UNUSABLE` if a part of the key is missing or has the wrong type.
 */
export function keyOfCoordinate(
  parts: CacheParts,
  target: CoordinateTarget,
): { readonly key: Key; readonly rule: FieldRule } {
  const { coordinate } = target;
  const { fields } = parts.rules;
  const rule = fields.get(coordinate);
  if (rule === undefined)
    throw new CachedError(
      "CACHED_COORDINATE_UNKNOWN",
      `\`${coordinate}\`: expected a cached field of a schema passed to applyCached; known fields: ${[...fields.keys()].join(", ") || "none"}`,
      { coordinate },
    );
  const identity = identityOf(() => target.private, undefined);
  if (rule.policy.scope === "PRIVATE" && identity === undefined)
    throw new CachedError(
      "CACHED_KEY_UNUSABLE",
      `\`${coordinate}\`: \`private\`: expected the identity that owns the entry (a non-empty string or a number), since the field is PRIVATE`,
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
