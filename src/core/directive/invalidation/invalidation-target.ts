import { CachedError, describeSetting, optionInvalid } from "../../base/errors.js";
import { listsByType, RESPONSES, type Subject } from "../../keys/key.js";
import { checkedTags, mistakeInTag } from "../../keys/tag-template.js";
import { identityOfTarget } from "../../loader/identity.js";
import { namesOfEntry } from "../../loader/loader-target.js";
import type { CacheParts } from "../../parts.js";
import type { FieldRule } from "../../schema-rules.js";
import type { InvalidationNames } from "../../tier/shared/unconfirmed-invalidations.js";
import { coerceArgs, type FieldRoots, invalidationNamesOf, keyOf } from "../compile/field-rule.js";

/**
 * Checks a target that a user passes to `caller`; `at` is its place in the argument, such as
 * `entries[0].`. A property that is present without a value is a mistake: it usually comes from a
 * variable that is unexpectedly empty, and the target would then name another entry. Throws
 * `CACHED_OPTION_INVALID`.
 */
export function checkInvalidationTarget(target: unknown, caller: string, at = ""): asserts target is InvalidateTarget {
  const given = (target ?? {}) as Readonly<Partial<Record<Kind, unknown>>>;
  const reject = (mistake: string): never => {
    const name = given.loader ?? given.function ?? given.coordinate;
    const subject = typeof name === "string" ? { coordinate: name } : {};
    throw new CachedError("CACHED_OPTION_INVALID", `${caller}: ${mistake}`, subject);
  };
  if (typeof target !== "object" || target === null)
    return reject(
      `${at === "" ? "`target`" : `\`${at.slice(0, -1)}\``}: expected an object such as ${KINDS.coordinate.example}, got ${describeSetting(target)}`,
    );
  const [kind = "coordinate", other] = (Object.keys(KINDS) as Kind[]).filter((one) => one in target);
  if (other !== undefined) reject(`\`${at}${kind}\`: expected either \`${other}\` or \`${kind}\`, got both`);
  const { name, otherwise = "", properties: known } = KINDS[kind];
  if (typeof given[kind] !== "string")
    reject(`\`${at}${kind}\`: expected the ${name}, got ${describeSetting(given[kind])}${otherwise}`);
  for (const [property, value] of Object.entries(target)) {
    if (property === kind) continue;
    const [expected, remedy] =
      (Object.hasOwn(known, property) ? known[property] : undefined) ??
      reject(
        `\`${at}${property}\`: unknown property; known are ${[kind, ...Object.keys(known)].join(", ")}${kind === "loader" ? "" : `; arguments of the ${kind === "function" ? kind : "field"} belong in \`args\``}`,
      );
    const isObject = typeof value === "object" && value !== null && Array.isArray(value) === (kind === "function");
    const isMissing = value === undefined || value === null;
    if (isMissing || (["args", "source", "context"].includes(property) && !isObject))
      // A value of the wrong type may be personal data, so only its type is named.
      reject(
        `\`${at}${property}\`: expected ${expected}, got ${isMissing ? String(value) : Array.isArray(value) ? "an array" : `a ${typeof value}`}; ${remedy}`,
      );
  }
}

/** The kinds of targets by the property that names one, and what others they have. */
const KINDS: Readonly<Record<Kind, TargetKind>> = {
  loader: {
    name: "name of a loader",
    example: '{ loader: "Movie", id: 7 }',
    properties: {
      id: ["the id of the entry", "pass it, or leave `id` out to invalidate every entry of the loader"],
      private: ["the identity that owns the entry", "pass it, or leave `private` out if the loader is not PRIVATE"],
    },
  },
  function: {
    name: "name of a function",
    example: '{ function: "rates", args: ["EUR"] }',
    properties: {
      args: ["an array of the arguments", "pass them, or leave `args` out to invalidate every entry of the function"],
      private: ["the identity that owns the entry", "pass it, or leave `private` out if the function is not PRIVATE"],
    },
  },
  coordinate: {
    name: 'coordinate of a field such as "Query.movie"',
    otherwise: "; pass it, or the name of a loader as `loader`",
    example: '{ coordinate: "Query.movie", args: { id: 7 } }',
    properties: {
      args: ["an object of arguments", "pass the arguments of the entry, or leave `args` out if the field needs none"],
      source: ["an object with the properties of the parent", "pass them, or leave `source` out if the key needs none"],
      context: ["an object with properties of the context", "pass them, or leave `context` out if the key needs none"],
      private: ["the identity that owns the entry", "pass it, or leave `private` out if the field is not PRIVATE"],
    },
  },
};

type Kind = "loader" | "function" | "coordinate";
interface TargetKind {
  readonly name: string;
  readonly otherwise?: string;
  readonly example: string;
  readonly properties: Readonly<Record<string, readonly [expected: string, remedy: string]>>;
}

/**
 * Identifies one entry of a cached field by what its key is made of. Ids and identities may be
 * spelled in any way: 7, "7" and 7n are one id. A property that is present must have a value. The
 * coordinate alone stands for every entry of the field, those of all identities included.
 */
export interface EntryTarget {
  /** The field, such as `Query.movie`. */
  readonly coordinate: string;
  /** The arguments, written as in JSON. The schema's defaults are applied. */
  readonly args?: Readonly<Record<string, unknown>>;
  /** The properties of the parent object that the key uses, such as `{ id: 7 }`. */
  readonly source?: unknown;
  /** The properties of the context that the key uses. */
  readonly context?: unknown;
  /** The identity that a PRIVATE entry belongs to. */
  readonly private?: string | number | bigint;
}

/**
 * Identifies one entry of a loader. The name alone stands for every entry of the loader. A property
 * that is present must have a value.
 */
export interface LoaderTarget {
  /** The `name` of the loader. */
  readonly loader: string;
  /** The id as the loader gets it: 7 and "7" are two ids. */
  readonly id?: unknown;
  /** The identity that an entry of a PRIVATE loader belongs to. */
  readonly private?: string | number | bigint;
}

/**
 * Identifies one entry of a function made by `cache.wrap`. The name alone stands for every entry of
 * the function.
 */
export interface FunctionTarget {
  /** The `name` of the function. */
  readonly function: string;
  /** The arguments of a call. A context among them may be undefined. */
  readonly args?: readonly unknown[];
  /** The identity that an entry of a PRIVATE function belongs to. */
  readonly private?: string | number | bigint;
}

/** What `cache.invalidate` invalidates. */
export type InvalidateTarget = EntryTarget | LoaderTarget | FunctionTarget;

/**
 * Checks what a write makes outdated, as a user passes it to `caller`, except its tags. Having
 * neither tags nor entries is no mistake: a list can be empty. Throws `CACHED_OPTION_INVALID`.
 */
export function checkWriteTarget(target: unknown, caller: string): void {
  const invalid = (mistake: string): CachedError => optionInvalid(`${caller}: ${mistake}`);
  if (typeof target !== "object" || target === null || Array.isArray(target))
    throw invalid(`\`target\`: expected an object such as { tags: ["Movie:7"] }, got ${describeSetting(target)}`);
  for (const [property, { example }] of Object.entries(KINDS))
    if (property in target)
      throw invalid(
        `\`${property}\`: expected \`tags\` or \`entries\`, got the target of an entry; write { entries: [${example}] }`,
      );
  const known = ["tags", "entries"];
  const unknown = Object.keys(target).find((property) => !known.includes(property));
  if (unknown !== undefined) throw invalid(`\`${unknown}\`: unknown property; known are ${known.join(", ")}`);
  const { entries = [] } = target as { readonly entries?: unknown };
  if (!Array.isArray(entries))
    throw invalid(
      `\`entries\`: expected an array of targets such as ${KINDS.coordinate.example}, got ${describeSetting(entries)}`,
    );
  for (const [nth, entry] of entries.entries()) checkInvalidationTarget(entry, caller, `entries[${nth}].`);
}

/** Returns the target of a field or loader. Throws `CACHED_COORDINATE_UNKNOWN` without either. */
export function targetOfCoordinate(
  { rules, loaders }: CacheParts,
  given: Readonly<Record<string, unknown>> & { readonly coordinate: string },
): EntryTarget | LoaderTarget {
  const { coordinate, ...others } = given;
  if (loaders.has(coordinate)) return { loader: coordinate, ...others };
  if (rules.fields.has(coordinate)) return { coordinate, ...others };
  const message = `\`${coordinate}\`: expected a cached field of a schema passed to applyCached, or the name of a loader; known fields: ${listOf(rules.fields.keys())}; known loaders: ${listOf(loaders.keys())}`;
  throw new CachedError("CACHED_COORDINATE_UNKNOWN", message, { coordinate });
}

/**
 * Returns the call of a cached field that `target` names; its arguments are coerced. Throws
 * `CACHED_COORDINATE_UNKNOWN` if no applied schema caches the field, and `CACHED_KEY_UNUSABLE` if
 * the identity or an argument is missing or has the wrong type, or if there is an identity for a
 * PUBLIC field.
 */
function callOf({ rules, loaders }: CacheParts, target: EntryTarget) {
  const { coordinate, args = {}, source, context } = target;
  const rule = rules.fields.get(coordinate);
  if (rule === undefined) {
    const mistake = `\`${coordinate}\`: expected a cached field of a schema passed to applyCached; known fields: ${listOf(rules.fields.keys())}${loaders.has(coordinate) ? `; for the loader of this name, pass { loader: ${JSON.stringify(coordinate)} }` : ""}`;
    throw new CachedError("CACHED_COORDINATE_UNKNOWN", mistake, { coordinate });
  }
  const identity = identityOfTarget(target, rule, "field");
  const roots: FieldRoots = { args: coerceArgs(rule, args), source, context, info: undefined };
  return { rule, roots, identity };
}

/** Throws what `callOf` throws, and `CACHED_KEY_UNUSABLE` for a missing part or the selection. */
export function keyOfCoordinate(parts: CacheParts, target: EntryTarget) {
  const call = callOf(parts, target);
  return { ...call, key: keyOf(call.rule, call.roots, call.identity, parts.keys) };
}

function namesOfTarget(parts: CacheParts, target: EntryTarget): InvalidationNames {
  const { rule, roots, identity } = callOf(parts, target);
  return invalidationNamesOf(rule, roots, identity, parts.keys);
}

const listOf = (names: Iterable<string>): string => [...names].join(", ") || "none";

/**
 * Returns what an invalidation of `target` concerns. A coordinate or a loader without any other
 * property stands for all of its entries.
 *
 * Throws `CACHED_COORDINATE_UNKNOWN` if there is no such field or loader, and `CACHED_KEY_UNUSABLE`
 * if a part of the key or the identity is missing or has the wrong type.
 */
export function namesOfInvalidation(parts: CacheParts, target: InvalidateTarget): InvalidationNames {
  if ("loader" in target) return namesOfLoader(parts, target);
  if ("function" in target) {
    const { function: loader, args, ...others } = target;
    return namesOfLoader(parts, { loader, ...(args === undefined ? {} : { id: args }), ...others });
  }
  if (target.coordinate === RESPONSES && Object.keys(target).length === 1) return wholeOf(RESPONSES);
  const isWhole = parts.rules.fields.has(target.coordinate) && Object.keys(target).length === 1;
  return isWhole ? wholeOf(target.coordinate) : namesOfTarget(parts, target);
}

/** The same for one entry. Throws `CACHED_KEY_UNUSABLE` for more, with the remedy `otherwise`. */
export function namesOfOneEntry(
  parts: CacheParts,
  target: InvalidateTarget,
  { caller, otherwise }: { readonly caller: string; readonly otherwise: string },
): InvalidationNames {
  const names = namesOfInvalidation(parts, target);
  const [whole] = names.coordinates ?? [];
  if (whole === undefined) return names;
  if ("coordinate" in target) {
    // A part of the key that is missing is the better message.
    const ofOne = namesOfTarget(parts, target);
    const rule = parts.rules.fields.get(target.coordinate);
    if (rule !== undefined && hasOneEntry(rule)) return ofOne;
  }
  const mistake = `${caller}: expected a target that names one entry of \`${whole}\`, got one that names all of them; ${"loader" in target ? "pass `id`" : "function" in target ? "pass `args`" : "pass the parts of the key, such as `args: {}`"}, or ${otherwise} to invalidate all entries`;
  throw new CachedError("CACHED_KEY_UNUSABLE", mistake, { coordinate: whole });
}

const wholeOf = (coordinate: string): InvalidationNames => ({ keys: [], tags: [], coordinates: [coordinate] });

/** Whether the key of a field has no parts in this release: its coordinate names an entry. */
const hasOneEntry = ({ policy, args, keyPaths }: FieldRule): boolean =>
  policy.scope === "PUBLIC" &&
  args.length === 0 &&
  keyPaths.every(({ root }) => root === "args" || root === "selection");

function namesOfLoader({ loaders, logger }: CacheParts, target: LoaderTarget): InvalidationNames {
  const { loader: name } = target;
  const rule = loaders.get(name);
  if (rule === undefined)
    throw new CachedError(
      "CACHED_COORDINATE_UNKNOWN",
      `\`${name}\`: expected the name of a loader made by cache.loader, or of a function made by cache.wrap; known loaders and functions: ${listOf(loaders.keys())}`,
      { coordinate: name },
    );
  if (Object.keys(target).length === 1) return wholeOf(name);
  return namesOfEntry(rule, target, logger);
}

/**
 * Returns what an invalidation of the tags that `caller` got changes. Reports, once each, tags that
 * no value can have, among the first hundred.
 *
 * Beyond 20,000 tags in a minute, all that begins like them is invalidated (`ListedTags`).
 *
 * Throws `CACHED_OPTION_INVALID` unless `tags` are non-empty strings that can be meant as tags. The
 * tags of an outbox are made of rows, and were committed: those that cannot be meant are reported,
 * so that they do not stop the others.
 */
export function invalidatedSubjects(parts: CacheParts, given: unknown, caller: string): Subject[] {
  const isOfOutbox = caller === "outbox";
  const tags = isOfOutbox ? checkedTags(given, caller) : meantTags(given, caller);
  for (const [nth, tag] of tags.entries()) {
    const mistake = isOfOutbox ? mistakeInTag(tag, false) : undefined;
    const problem = mistake ?? (nth < MAX_COMPARED ? problemOf(parts, tag) : undefined);
    if (problem !== undefined) parts.channel.mistaken(null, optionInvalid(`${caller}: ${problem}`));
  }
  const { keys, listedTags } = parts;
  const changed = listsByType(tags).flatMap(
    (list) => (listedTags.allowCall(list.length) ? undefined : keys.beginningsOf(list)) ?? keys.invalidatedTags(list),
  );
  return [...new Set(changed)];
}

/** Returns each tag once. Throws `CACHED_OPTION_INVALID` unless they can be meant as tags. */
export function meantTags(given: unknown, caller: string): readonly string[] {
  const tags = checkedTags(given, caller);
  for (const tag of tags) {
    const mistake = mistakeInTag(tag, false);
    if (mistake !== undefined) throw optionInvalid(`${caller}: ${mistake}`);
  }
  return tags;
}

/** The most tags of a call that are compared with those that values can have, which takes long. */
const MAX_COMPARED = 100;

function problemOf({ knownTags }: CacheParts, tag: string): string | undefined {
  const unknown = knownTags.unknown(tag);
  if (unknown === undefined) return undefined;
  const { name, meant, mayBeOfFunction } = unknown;
  const given = name === undefined ? "another one" : `one like \`${name}…\``;
  const remedy =
    meant === undefined
      ? `known tags: ${knownTags.texts.map((text) => `\`${text}\``).join(", ") || "none"}; correct it`
      : `did you mean \`${meant}\`?`;
  const others = mayBeOfFunction
    ? "a function that returns tags, or another service that shares the store, has it"
    : "another service that shares the store has it";
  return `\`tags\`: expected a tag that a cached field or loader can have, got ${given}; ${remedy}; it is right if ${others}`;
}
