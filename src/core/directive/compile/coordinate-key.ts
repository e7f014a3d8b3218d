import { CachedError, describeSetting } from "../../base/errors.js";
import type { Key } from "../../keys/key.js";
import { type Identity, identityOfTarget } from "../../loader/identity.js";
import type { CacheParts } from "../../parts.js";
import type { FieldRule } from "../../schema-rules.js";
import type { Names } from "../../tier/record/unconfirmed-invalidations.js";
import { coerceArgs, type FieldRoots, invalidationNamesOf, keyOf } from "./field-rule.js";

/**
 * Returns the key that a request would use. Throws what `resolveTarget` throws, and `CACHED_KEY_UNUSABLE` if a part of
 * the key is missing, or if it is the selection, declared or because the field looks ahead: only a request has that.
 */
export function keyOfCoordinate(parts: CacheParts, target: CoordinateTarget): ResolvedTarget & { readonly key: Key } {
  const resolved = resolveTarget(parts, target);
  const { rule, roots, identity } = resolved;
  if (rule.queryUse.extent !== "none")
    throw new CachedError(
      "CACHED_KEY_UNUSABLE",
      `\`${rule.coordinate}\`: expected a field whose key does not depend on the query, got one whose resolver looks ahead and that is cached by selection; its entries cannot be named one by one`,
      { coordinate: rule.coordinate },
    );
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

/** What the properties of a target have to be, besides the one that says what it is of, and what to do if one is missing. */
const PROPERTIES: Readonly<Record<"coordinate" | "loader", Readonly<Record<string, readonly [string, string]>>>> = {
  coordinate: {
    args: ["an object of arguments", "pass the arguments of the entry, or leave `args` out if the field needs none"],
    source: ["an object with the properties of the parent", "pass them, or leave `source` out if the key needs none"],
    context: ["an object with properties of the context", "pass them, or leave `context` out if the key needs none"],
    private: ["the identity that owns the entry", "pass it, or leave `private` out if the field is not PRIVATE"],
  },
  loader: {
    id: ["the id of the entry", "pass it, or leave `id` out to invalidate every entry of the loader"],
    private: ["the identity that owns the entry", "pass it, or leave `private` out if the loader is not PRIVATE"],
  },
};

/**
 * Checks the properties of a target of a `kind`. A property that is present without a value is a mistake: it usually
 * comes from a variable that is unexpectedly empty, and the target would then name another entry. `at` is the place
 * of the target in the argument, such as `entries[0].`.
 */
export function checkProperties(
  target: object,
  kind: "coordinate" | "loader",
  at: string,
  reject: (mistake: string) => never,
): void {
  const known = PROPERTIES[kind];
  for (const [property, value] of Object.entries(target)) {
    if (property === kind) continue;
    const [expected, remedy] =
      (Object.hasOwn(known, property) ? known[property] : undefined) ??
      reject(
        `\`${at}${property}\`: unknown property; known are ${[kind, ...Object.keys(known)].join(", ")}${kind === "loader" ? "" : "; arguments of the field belong in `args`"}`,
      );
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    const isMissing = value === undefined || value === null;
    if (isMissing || (["args", "source", "context"].includes(property) && !isObject))
      // A value of the wrong type may be personal data, so only its type is named.
      reject(
        `\`${at}${property}\`: expected ${expected}, got ${isMissing ? String(value) : Array.isArray(value) ? "an array" : `a ${typeof value}`}; ${remedy}`,
      );
  }
}

/** Checks a target that a user passes to `caller`. Throws `CACHED_OPTION_INVALID`. */
export function checkTarget(target: unknown, caller: string, at = ""): asserts target is CoordinateTarget {
  const { coordinate } = (target ?? {}) as { readonly coordinate?: unknown };
  const reject = (mistake: string): never => {
    const context = typeof coordinate === "string" ? { coordinate } : {};
    throw new CachedError("CACHED_OPTION_INVALID", `${caller}: ${mistake}`, context);
  };
  if (typeof target !== "object" || target === null)
    reject(
      `${at === "" ? "`target`" : `\`${at.slice(0, -1)}\``}: expected an object such as { coordinate: "Query.movie", args: { id: 7 } }, got ${describeSetting(target)}`,
    );
  checkProperties(target as object, "coordinate", at, reject);
}

/**
 * Returns the call of a cached field that `target` names. Throws `CACHED_COORDINATE_UNKNOWN` if no applied schema
 * caches the field, and `CACHED_KEY_UNUSABLE` if the identity or an argument is missing or has the wrong type, or if
 * there is an identity for a PUBLIC field.
 */
export function resolveTarget(parts: CacheParts, target: CoordinateTarget): ResolvedTarget {
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
export function namesOfTarget(parts: CacheParts, target: CoordinateTarget): Names {
  const { rule, roots, identity } = resolveTarget(parts, target);
  return invalidationNamesOf(rule, roots, identity, parts.keys);
}
