import { CachedError } from "../../base/errors.js";
import type { Key } from "../../keys/key.js";
import { type Identity, identityOfTarget } from "../../loader/identity.js";
import type { CacheParts } from "../../parts.js";
import type { FieldRule } from "../../schema-rules.js";
import type { InvalidationNames } from "../../tier/shared/unconfirmed-invalidations.js";
import { coerceArgs, type FieldRoots, invalidationNamesOf, keyOf } from "./field-rule.js";

/**
 * Returns the key that a request would use. Throws what `resolveTarget` throws, and `CACHED_KEY_UNUSABLE` if a part of
 * the key is missing, or if it is the selection: only a request has that.
 */
export function keyOfCoordinate(parts: CacheParts, target: CoordinateTarget): ResolvedTarget & { readonly key: Key } {
  const resolved = resolveTarget(parts, target);
  const { rule, roots, identity } = resolved;
  return { ...resolved, key: keyOf(rule, roots, identity, parts.keys) };
}

/** Identifies one entry of a field outside of a request. */
export interface CoordinateTarget {
  readonly coordinate: string;
  readonly args?: Readonly<Record<string, unknown>>;
  readonly source?: unknown;
  readonly context?: unknown;
  readonly private?: unknown;
}

export interface ResolvedTarget {
  readonly rule: FieldRule;
  /** What a request would have: the arguments are coerced. */
  readonly roots: FieldRoots;
  readonly identity: Identity | undefined;
}

/**
 * Returns the call of a cached field that `target` names. Throws `CACHED_COORDINATE_UNKNOWN` if no applied schema
 * caches the field, and `CACHED_KEY_UNUSABLE` if the identity or an argument is missing or has the wrong type, or if
 * there is an identity for a PUBLIC field.
 */
function resolveTarget(parts: CacheParts, target: CoordinateTarget): ResolvedTarget {
  const { coordinate } = target;
  const { fields } = parts.rules;
  const rule = fields.get(coordinate);
  if (rule === undefined)
    throw new CachedError(
      "CACHED_COORDINATE_UNKNOWN",
      `\`${coordinate}\`: expected a cached field of a schema passed to applyCached; known fields: ${[...fields.keys()].join(", ") || "none"}${parts.loaders.has(coordinate) ? `; for the loader of this name, pass { loader: ${JSON.stringify(coordinate)} }` : ""}`,
      { coordinate },
    );
  const identity = identityOfTarget(target, rule, "field");
  const { source, context } = target;
  return { rule, roots: { args: coerceArgs(rule, target.args ?? {}), source, context, info: undefined }, identity };
}

/** See `invalidationNamesOf`. Throws what `keyOfCoordinate` throws. */
export function namesOfTarget(parts: CacheParts, target: CoordinateTarget): InvalidationNames {
  const { rule, roots, identity } = resolveTarget(parts, target);
  return invalidationNamesOf(rule, roots, identity, parts.keys);
}
