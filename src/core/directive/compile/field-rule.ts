import {
  type GraphQLField,
  type GraphQLInputType,
  type GraphQLResolveInfo,
  getNullableType,
  isInputObjectType,
  isListType,
  isNonNullType,
} from "graphql";
import { attempt, isObject, isPlainObject } from "../../base/built-in.js";
import { CachedError } from "../../base/errors.js";
import { coerceInput, defaultOf } from "../../base/graphql-version.js";
import { canonicalize, isRounded, ROUNDED } from "../../keys/canonical.js";
import { type Key, type KeyInput, type KeySpace, type Subject, textOfKey } from "../../keys/key.js";
import { type Path, readPath } from "../../keys/path.js";
import { type BoundTemplate, bindTemplate, type TagTemplate, writeTags } from "../../keys/tag-template.js";
import type { Identity } from "../../loader/identity.js";
import type { FieldRule, KeyFields, KeyPath } from "../../schema-rules.js";
import type { Excess } from "../../tier/request/loaded.js";
import { NO_TAGS, type RequestTags, ResultTags, TagsBeforeLoad } from "../../tier/request/tags.js";
import type { InvalidationNames } from "../../tier/shared/unconfirmed-invalidations.js";
import { isOnlyKey, keyPartOf, keyPathsOf } from "./key-set.js";

/** Throws `CACHED_KEY_UNUSABLE` for a missing part, `CACHED_KEY_UNSERIALIZABLE` without a text. */
export function keyOf(rule: FieldRule, roots: FieldRoots, identity: Identity | undefined, keys: KeySpace): Key {
  return orKeyMistake(rule, () => keys.entry(keyInputOf(rule, roots, identity), rule.variant));
}

function keyInputOf(rule: FieldRule, roots: FieldRoots, identity: Identity | undefined): KeyInput {
  if (rule.reference?.keys !== undefined) keyRootsOf(rule, rule.reference.keys, roots);
  return inputOf(rule, rule.keyPaths, roots, identity);
}

/** Returns why a load has another key by now: a resolver has changed an argument or the parent. */
export function changedKeyOf(
  rule: FieldRule,
  key: Key,
  roots: FieldRoots,
  identity: Identity | undefined,
): Excess | undefined {
  const hasParent = rule.keyPaths.some(({ root }) => root === "source");
  if (!hasParent && !Object.values(roots.args).some(isObject)) return undefined;
  // It may have no key by now.
  if (attempt(() => textOfKey(keyInputOf(rule, roots, identity))) === key.input) return undefined;
  const { coordinate } = rule;
  const mistake = `\`${coordinate}\`: the value is not cached: expected arguments and a parent that stay as they are until the load begins, got others by then; let resolvers copy what they change`;
  const error = new CachedError("CACHED_KEY_UNUSABLE", mistake, { coordinate });
  return { kind: "unkeyable", error };
}

/** The inputs of a key: arguments with defaults applied, parent, context, and `info`. */
export interface FieldRoots {
  readonly args: Readonly<Record<string, unknown>>;
  readonly source: unknown;
  readonly context: unknown;
  /** Undefined outside of an execution; `$selection` cannot be read then. */
  readonly info: GraphQLResolveInfo | undefined;
}

function orKeyMistake<Result>({ coordinate }: FieldRule, make: () => Result): Result {
  try {
    return make();
  } catch (cause) {
    throw keyMistake(coordinate, cause);
  }
}

/** Shows no exception that is not from here: it can contain user data. */
export function keyMistake(coordinate: string, cause: unknown): CachedError {
  if (cause instanceof CachedError && cause.code === "CACHED_KEY_UNUSABLE") return cause;
  const reason =
    cause instanceof CachedError
      ? `${cause.message}; list the inputs that matter in \`key\``
      : "expected values in `key` and `tags` that can be read, got an exception, the cause of this error; correct the getter that threw it, or name other values";
  const message = `\`${coordinate}\` is not cached: ${reason}`;
  return new CachedError("CACHED_KEY_UNSERIALIZABLE", message, { coordinate, cause });
}

/** Of entries with more in their key than an invalidation names: selection or representation. */
function groupTagsOf(rule: FieldRule, roots: FieldRoots, identity: Identity | undefined, keys: KeySpace): Subject[] {
  const entityKeys = rule.reference?.keys;
  const hasMoreFields = entityKeys?.every((fields) => !isOnlyKey(fields, roots.source)) === true;
  if (!rule.declaresSelection && !hasMoreFields) return [];
  return orKeyMistake(rule, () => groupsOf(rule, roots, identity).map((group) => keys.groupTag(group)));
}

/**
 * Returns what an invalidation of one field call concerns: its key without the selection, and the
 * tag of the entries that have more in their key. If the selection is a part of it, there is no
 * entry of the key without it, but it leads to the releases that make their keys in another way.
 * References concern each `@key` that the representation has. Throws what `keyOf` throws.
 */
export function invalidationNamesOf(
  rule: FieldRule,
  roots: FieldRoots,
  identity: Identity | undefined,
  keys: KeySpace,
): InvalidationNames {
  return orKeyMistake(rule, () => {
    const groups = groupsOf(rule, roots, identity);
    const hasGroups = rule.declaresSelection || rule.reference?.keys !== undefined;
    const tags = hasGroups ? groups.map((group) => keys.groupTag(group)) : [];
    return { keys: groups.map((group) => keys.entry(group, rule.variant)), tags };
  });
}

function groupsOf(rule: FieldRule, roots: FieldRoots, identity: Identity | undefined): KeyInput[] {
  const paths = rule.keyPaths.filter(({ root }) => root !== "selection");
  const entityKeys = rule.reference?.keys;
  const groups = entityKeys === undefined ? [roots] : keyRootsOf(rule, entityKeys, roots);
  return groups.map((group) => inputOf(rule, paths, group, identity));
}

/** With only a key of the representation as the source, for each `@key` that it has. */
function keyRootsOf({ coordinate }: FieldRule, entityKeys: readonly KeyFields[], roots: FieldRoots): FieldRoots[] {
  const found = entityKeys.flatMap((fields) => {
    const source = keyPartOf(fields, roots.source);
    return source === undefined ? [] : [{ ...roots, source }];
  });
  if (found.length > 0) return found;
  const expected = entityKeys.map((fields) => `\`${keyPathsOf(fields).join("` and `")}\``).join(", or ");
  const mistake = `\`${coordinate}\` is not cached: expected a representation with ${expected}, got one in which a part is missing or null; pass the fields of a \`@key\``;
  throw new CachedError("CACHED_KEY_UNUSABLE", mistake, { coordinate });
}

export const pathsIn = (templates: readonly TagTemplate[]): Path[] =>
  templates.flatMap(({ pieces }) => pieces.filter((piece) => typeof piece !== "string"));

export const contextPartsOf = ({ contextPaths }: FieldRule, context: unknown, { writers }: KeySpace): string[] =>
  contextPaths.map((path) => attempt(() => canonicalize(readPath(path, { context }), writers.byText)) ?? "");

const inputOf = (
  rule: FieldRule,
  paths: readonly KeyPath[],
  roots: FieldRoots,
  identity: Identity | undefined,
): KeyInput => ({
  kind: "field",
  coordinate: rule.coordinate,
  identity,
  parts: paths.reduce((text, path) => `${text}${path.text}:${partOf(rule, path, roots)},`, ""),
});

function partOf(rule: FieldRule, path: KeyPath, roots: FieldRoots): string {
  const { args, source, info } = roots;
  let part: string | undefined;
  if (path.root === "selection") part = info && rule.queryUse.selectionText(info);
  else if (path.root === "args") part = path.steps.length === 0 ? path.write(args, 0) : writeOptional(path, args);
  else if (path.isOptional) {
    part = writeOptional(path, source ?? undefined);
    // An invalidation has to say which.
    if (info === undefined && part?.startsWith("absent")) part = undefined;
  } else {
    const [value] = readPath(path, roots);
    part = value === undefined ? undefined : path.write(value, 0);
  }
  if (part === undefined) throw missingPart(rule, path, roots);
  return part;
}

/**
 * Returns the text of an argument, or of what a field requires of its parent. Resolvers can
 * distinguish null, absent and every other value at each step, so the key must too: a value is
 * written in brackets, a missing one as the depth at which it is missing. Returns undefined if the
 * path leads into a list or a leaf, since the key would then not depend on the argument.
 */
function writeOptional(path: KeyPath, root: unknown): string | undefined {
  let value = root;
  for (let depth = 0; depth < path.steps.length; depth++) {
    const step = path.steps[depth] as string;
    if (typeof value !== "object" || Array.isArray(value)) return undefined;
    // An argument can have the name of a method of all objects.
    const isInherited = isPlainObject(value) && !Object.hasOwn(value, step);
    value = isInherited ? undefined : (value as Readonly<Record<string, unknown>>)[step];
    if (value === undefined || value === null) return `${value === null ? "null" : "absent"} at ${depth}`;
  }
  return `[${path.write(value, 1)}]`;
}

function missingPart({ coordinate, reference }: FieldRule, { root, text }: KeyPath, { info }: FieldRoots): CachedError {
  const missing = `its key needs \`${text}\`, which is missing`;
  const mistake =
    info === undefined
      ? `\`${coordinate}\`: ${missing}; ${root === "selection" ? "its entries cannot be named one by one" : `pass it in \`${root}\``}`
      : `\`${coordinate}\` is not cached: ${missing}; ${remedyOf(root, reference)}, or set another \`key\``;
  return new CachedError("CACHED_KEY_UNUSABLE", mistake, { coordinate });
}

/** How a request supplies a part of a key. It always has the selection. */
function remedyOf(root: Path["root"], reference: FieldRule["reference"]): string {
  if (root === "args") return "pass an object that contains it";
  if (root === "context") return "set it in the server's context function";
  return reference === undefined ? "return it from the parent's resolver" : "pass it in the representation";
}

/** Throws what `keyOf` throws. */
export function knownTagsOf(
  rule: FieldRule,
  roots: FieldRoots,
  identity: Identity | undefined,
  keys: KeySpace,
): RequestTags & { readonly texts: readonly string[] } {
  const texts = tagTextsOf(rule, roots, keys);
  const groupTags = groupTagsOf(rule, roots, identity, keys);
  if (texts.length + groupTags.length === 0) return NO_TAGS;
  return new TagsBeforeLoad(texts, keys, rule.hasOwnTags, groupTags);
}

/** The tags that are declared and known before the load. Throws what `keyOf` throws. */
export function tagTextsOf(rule: FieldRule, roots: FieldRoots, keys: KeySpace): readonly string[] {
  const { knownTags: templates, reportEmptyTag } = rule;
  return templates.length === 0 ? NO_TAGS.texts : tagTexts({ templates, reportEmptyTag }, roots, undefined, keys);
}

export function requestTagsOf(rule: FieldRule, known: RequestTags, roots: FieldRoots, keys: KeySpace): RequestTags {
  return new ResultTags(known, resultTagsOf(rule, rule.resultTags, roots, keys));
}

/** What tags of the result contain of arguments is read now: the resolver may change it. */
export function tagsBeforeLoad(rule: FieldRule, tags: RequestTags, roots: FieldRoots, keys: KeySpace): RequestTags {
  if (rule.resultTags.length === 0) return tags;
  return new ResultTags(tags, resultTagsOf(rule, boundTemplates(rule.resultTags, roots, keys), roots, keys));
}

export const boundTemplates = (
  templates: readonly TagTemplate[],
  { args, source, context }: FieldRoots,
  keys: KeySpace,
): BoundTemplate[] => templates.map((template) => bindTemplate(template, { args, source, context }, keys.keyFormOf));

function resultTagsOf(
  { entities, reportEmptyTag }: FieldRule,
  templates: readonly BoundTemplate[],
  roots: FieldRoots,
  keys: KeySpace,
): (value: unknown) => readonly Subject[] {
  return (value) =>
    keys.tags([
      ...tagTexts({ templates, reportEmptyTag }, roots, value, keys),
      ...(entities?.tagsIn(value, roots) ?? []),
    ]);
}

export const hasResultTags = ({ entities, resultTags }: FieldRule): boolean =>
  entities !== undefined || resultTags.length > 0;

export function tagTexts(
  { templates, reportEmptyTag }: { readonly templates: readonly BoundTemplate[] } & Pick<FieldRule, "reportEmptyTag">,
  { args, source, context }: FieldRoots,
  result: unknown,
  keys: KeySpace,
): string[] {
  const roots = { args, source, context, result };
  const texts = templates.flatMap((template) => {
    const ofOne = writeTags(template, roots, keys.keyFormOf);
    if (ofOne.length === 0) reportEmptyTag(template, roots);
    return ofOne;
  });
  return texts.length < 2 ? texts : [...new Set(texts)];
}

/** Returns arguments as a resolver would receive them. Throws `CACHED_KEY_UNUSABLE`. */
export function coerceArgs(rule: FieldRule, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const reject = (mistake: string): never => {
    throw new CachedError("CACHED_KEY_UNUSABLE", `\`${rule.coordinate}\`: ${mistake}`, { coordinate: rule.coordinate });
  };
  const isNeeded = (argument: string): boolean =>
    rule.keyPaths.some(({ root, steps }) => root === "args" && (steps.length === 0 || steps[0] === argument));
  const names = rule.args.map(({ name }) => name);
  for (const name of Object.keys(given))
    if (!names.includes(name)) reject(`unknown argument \`${name}\`; known arguments: ${names.join(", ") || "none"}`);
  const args: Record<string, unknown> = {};
  for (const argument of rule.args) {
    const { name, type } = argument;
    const value = Object.hasOwn(given, name) ? given[name] : undefined;
    if (hasRoundedId(value, type)) reject(`argument \`${name}\`: ${ROUNDED}`);
    const fallback = value === undefined ? defaultOf(argument) : undefined;
    if (value !== undefined)
      args[name] = (
        coerceInput(value, type) ??
        reject(`argument \`${name}\`: expected a value of type \`${String(type)}\`, got one that cannot be coerced`)
      ).value;
    else if (fallback !== undefined) args[name] = fallback;
    else if (isNonNullType(type) && isNeeded(name))
      reject(
        `argument \`${name}\`: expected a value of type \`${String(type)}\`, got ${Object.hasOwn(given, name) ? "undefined" : "nothing"}; pass it in \`args\``,
      );
  }
  return args;
}

/** Whether a value has a number that may be rounded in the place of anything but a `Float`. */
function hasRoundedId(value: unknown, type: GraphQLInputType): boolean {
  const nullable = getNullableType(type);
  if (isRounded(value)) return String(nullable) !== "Float";
  if (Array.isArray(value))
    return isListType(nullable) && value.some((member) => hasRoundedId(member, nullable.ofType as GraphQLInputType));
  if (typeof value !== "object" || value === null || !isInputObjectType(nullable)) return false;
  const fields = value as Readonly<Record<string, unknown>>;
  return Object.values(nullable.getFields()).some(({ name, type: inner }) => hasRoundedId(fields[name], inner));
}

/** Whether a key contains the value at a path, alone or in another one. */
export const isInKey = (keyPaths: readonly Path[], root: Path["root"], steps: readonly string[]): boolean =>
  keyPaths.some((path) => path.root === root && path.steps.every((step, nth) => step === steps[nth]));

export type AnyField = GraphQLField<unknown, unknown>;
