import {
  type GraphQLObjectType,
  type GraphQLSchema,
  type GraphQLType,
  getNamedType,
  getNullableType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isLeafType,
  isListType,
  isObjectType,
  specifiedScalarTypes,
} from "graphql";
import { CachedError, describeSetting } from "../../base/errors.js";
import type { Input } from "../../base/graphql-version.js";
import { closestTo } from "../../base/option-names.js";
import { EACH, missingPropertyOf, type Path, type PathRoots, parsePath, readPath } from "../../keys/path.js";
import { mistakeInTag, parseTagTemplate, sampleOf, type TagTemplate, tagText } from "../../keys/tag-template.js";
import type { CacheParts } from "../../parts.js";
import type { EmptyTagReporter, KeyFields, KeyPath } from "../../schema-rules.js";
import { type AnyField, isInKey } from "./field-rule.js";
import { keyPathsOf } from "./key-set.js";
import { hasOwnResolver } from "./own-resolver.js";
import { REFERENCE, representationWriter } from "./reference.js";
import type { Place, SchemaReading } from "./schema-reading.js";
import { objectsOf } from "./type-graph.js";
import { isIdType, typeAt } from "./value-types.js";

/** A key or a tag of a field that is read, and where it is written. */
export interface TemplatePlace {
  readonly reading: SchemaReading;
  readonly parent: GraphQLObjectType;
  readonly field: AnyField;
  readonly isRoot: boolean;
  readonly place: Place;
}

/** `required`: the paths in the parent that a value is computed from by its `@requires`. */
export function readKey(
  at: TemplatePlace,
  given: readonly string[] | undefined,
  required: readonly string[],
): KeyPath[] {
  const { reading, parent, field, isRoot, place } = at;
  const { idFields, schema } = reading.inputs;
  // Exclusions alone are from the default.
  const excluded = given?.every(isExclusion) === true ? given : [];
  const key = excluded.length > 0 ? undefined : given;
  if (key === undefined && !isRoot && idFields.in(parent) === undefined)
    reading.refuse(
      place,
      `\`key\`: the default key needs \`${parent.name}.id\`, which does not exist; name what identifies the parent, such as key: ["$args", "$source.code"], or for all of its fields, in \`idFields\` of applyCached`,
    );
  const requiredTexts = [...new Set(required)].map((path) => `$source.${path}`);
  const byDefault = isRoot
    ? ["$args"]
    : ["$args", ...idFields.of(parent.name).map((name) => `$source.${name}`), ...requiredTexts];
  if (key !== undefined) checkRequired(at, requiredTexts, key);
  return withoutExcluded(at, [...(key ?? byDefault), ...excluded]).flatMap((text) => {
    const path = parsePath(text);
    if (path === undefined || path.root === "result" || path.steps.includes(EACH)) {
      reading.refuse(
        place,
        `\`key\`: expected paths such as $args.id, $source.id, $context.locale or $selection, got ${JSON.stringify(text)}`,
      );
      return [];
    }
    const mistake = mistakeInPath(path, "key", { ...at, schema });
    if (mistake !== undefined) reading.refuse(place, mistake);
    const writers = path.root === "args" ? reading.argumentWriters : reading.otherWriters;
    const isWhole = path.steps.length === 0;
    const write =
      path.root === "args" && isWhole ? writers.ofArguments(field) : writers.of(typeAt(path, parent, field));
    const isReference = field.name === REFERENCE && path.root === "source" && isWhole;
    const isOptional = requiredTexts.includes(text);
    return [{ ...path, write: isReference ? representationWriter(write) : write, isOptional }];
  });
}

/** Spreads `$args`, and input objects in it, into all but what follows a `!`. */
function withoutExcluded(at: TemplatePlace, texts: readonly string[]): readonly string[] {
  const excluded = texts.filter(isExclusion).map((text) => text.slice(1));
  if (excluded.length === 0) return texts;
  const met = new Set<string>();
  const others = (path: string, inputs: readonly Input[]): string[] =>
    inputs.flatMap(({ name, type }) => {
      const text = `${path}.${name}`;
      if (excluded.includes(text)) met.add(text);
      if (met.has(text)) return [];
      const object = getNullableType(type);
      const hasExcluded = isInputObjectType(object) && excluded.some((one) => one.startsWith(`${text}.`));
      return hasExcluded ? others(text, Object.values(object.getFields())) : [text];
    });
  const spread = texts.flatMap((text) =>
    text === "$args" ? others(text, at.field.args) : isExclusion(text) ? [] : [text],
  );
  for (const text of excluded.filter((one) => !met.has(one)))
    at.reading.refuse(
      at.place,
      `\`key\`: expected \`!\` before the path of an argument of \`$args\`, or of a field of its input object, and \`$args\` in the key, got ${JSON.stringify(`!${text}`)}`,
    );
  return spread;
}

/** `entityTags`: those made of the fields that identify an entity, which are ids of any type. */
export function readTags(
  at: TemplatePlace,
  declared: readonly string[],
  entityTags: readonly string[] = [],
): TagTemplate[] {
  const { reading, parent, field, place } = at;
  const { schema } = reading.inputs;
  const isOfValue = !place.source.endsWith("invalidates");
  const otherwise = isOfValue
    ? "add the tag with resultControl(info).set({ tags })"
    : "call cache.invalidateTags in the resolver";
  // Sorted, so that releases which differ in the order of their tags read each other's entries.
  return [...new Set([...declared, ...entityTags])].sort().flatMap((text) => {
    const template = parseTagTemplate(text);
    const mistake =
      template === undefined
        ? `\`tags\`: expected tags such as Movie:{$args.id} or Movie:{$result[].id}, got ${JSON.stringify(text)}`
        : mistakeInTag(sampleOf(text), isOfValue);
    if (mistake !== undefined) reading.refuse(place, mistake);
    if (template === undefined || mistake !== undefined) return [];
    const pieces = template.pieces.map((piece) => {
      if (typeof piece === "string") return piece;
      const inPath = mistakeInPath(piece, "tag", { ...at, schema, otherwise });
      if (inPath !== undefined) reading.refuse(place, inPath);
      return { ...piece, isId: entityTags.includes(text) || isIdType(typeAt(piece, parent, field)) };
    });
    return [{ ...template, pieces }];
  });
}

/** None if entities share entries: each would write its own tag into them, in turn. */
export function parentTag({ reading, parent }: TemplatePlace, keyPaths: readonly KeyPath[]): readonly string[] {
  const { entities, idFields } = reading.inputs;
  if (entities?.isEntity(parent) !== true) return [];
  const isWhole = idFields.of(parent.name).every((name) => isInKey(keyPaths, "source", [name]));
  return isWhole ? [idFields.templateOf(parent.name, "source")] : [];
}

/** Without the key of the entity in `key`, references to different entities would share entries. */
export function checkReference(
  { reading, place }: TemplatePlace,
  entityKeys: readonly KeyFields[],
  keyPaths: readonly KeyPath[],
): void {
  const keys = entityKeys.map(keyPathsOf);
  if (keys.some((paths) => paths.every((path) => isInKey(keyPaths, "source", path.split("."))))) return;
  const choices = keys.map((paths) => paths.map((path) => `$source.${path}`).join(" and ")).join(", or ");
  reading.refuse(
    place,
    `\`key\`: expected the key of the entity for \`${REFERENCE}\`, ${choices}, got ${keyPaths.map(({ text }) => text).join(", ") || "nothing"}; add it, or remove \`key\`: the default is the whole representation`,
  );
}

/** Without these in `key`, one representation would decide about the value for all others. */
function checkRequired({ reading, place }: TemplatePlace, required: readonly string[], key: readonly string[]): void {
  if (required.every((path) => key.some((text) => path === text || path.startsWith(`${text}.`)))) return;
  const last = required.at(-1) as string;
  const fields = required.length === 1 ? last : `${required.slice(0, -1).join(", ")} and ${last}`;
  reading.refuse(
    place,
    `\`key\`: expected the fields of \`@requires\`, ${fields}, got ${key.join(", ") || "nothing"}; add them, or remove \`key\``,
  );
}

const isExclusion = (text: string): boolean => text.startsWith("!");

/**
 * Reports the templates that yield no tag because a value has no text, or because a parent or a
 * result lacks the property that they name. Arguments and the context may lack theirs, and a
 * representation the keys that it does not use: the templates that follow from a type are not among
 * those `declared`.
 */
export function emptyTagReporter(
  { source, coordinate }: Place,
  declared: readonly string[],
  { channel, keys }: Pick<CacheParts, "channel" | "keys">,
): EmptyTagReporter {
  const reasonAt = (path: Path, roots: PathRoots): string | undefined => {
    const values = readPath(path, roots);
    if (values.length > 0) {
      if (values.some((value) => tagText(value, path.isId, keys.keyFormOf) !== undefined)) return undefined;
      return `the value at \`${path.text}\` is ${describeSetting(values[0])}, and not a string or a number; name a path to one, or give its class a \`keyOf\` in createCache({ types })`;
    }
    const missing = ["source", "result"].includes(path.root) ? missingPropertyOf(path, roots) : undefined;
    return (
      missing &&
      `the value at \`${missing.at}\` has no property \`${missing.property}\`; correct the path, or return an object with it`
    );
  };
  return ({ text, pieces }, roots) => {
    if (!declared.includes(text)) return;
    for (const piece of pieces) {
      const reason = typeof piece !== "string" && "root" in piece ? reasonAt(piece, roots) : undefined;
      if (reason === undefined) continue;
      const mistake = `${source} on \`${coordinate}\`: \`tags\`: \`${text}\` yields no tag, since ${reason}`;
      channel.mistaken(coordinate, new CachedError("CACHED_POLICY_INVALID", mistake, { coordinate }));
      return;
    }
  };
}

/**
 * Returns what is wrong with a path, as far as the schema says what it leads through. Arguments
 * have the types that they declare. The objects of resolvers can have other properties than the
 * fields of their type, which resolvers of these fields read; which shows when a tag is written.
 */
export function mistakeInPath(path: Path, use: Use, at: PathPlace): string | undefined {
  const mistake = mistakeIn(path, use, at);
  return mistake && `\`${path.text}\`: ${mistake}`;
}

/** `id`: of one value, as a guard gets it. */
type Use = "key" | "tag" | "id";

export interface PathPlace extends Pick<TemplatePlace, "parent" | "field" | "isRoot"> {
  readonly schema: GraphQLSchema;
  /** What to do about a property that is no field. */
  readonly otherwise?: string;
}

function mistakeIn({ text, root, steps }: Path, use: Use, place: PathPlace): string | undefined {
  const { field, parent, isRoot } = place;
  if (root === "source")
    return isRoot ? "root fields have no parent object; use arguments, such as $args.id" : misspeltField(steps, parent);
  if (root === "result") return mistakeBelow(use, place, field.type, "$result", steps);
  if (root !== "args") return undefined;
  if (field.name === REFERENCE)
    return `a \`${REFERENCE}\` has no arguments; use $source, the representation, or set it on the fields that return the type`;
  const [name, ...below] = steps;
  // All arguments, which are part of keys only.
  if (name === undefined) return use === "key" ? undefined : noSingleValue(text, "arguments", field.args);
  const argument = field.args.find((one) => one.name === name);
  if (argument === undefined) return unknownInput(name, field.args);
  return mistakeBelow(use, place, argument.type, `$args.${name}`, below);
}

/** `at`: the path so far, which leads to a value of type `start`. */
function mistakeBelow(
  use: Use,
  place: PathPlace,
  start: GraphQLType,
  at: string,
  steps: readonly string[],
): string | undefined {
  const missingList = (remedy: string): string =>
    `expected [] for the members of a list, which a value of type \`${start}\` is; write ${remedy}`;
  const [step, ...rest] = steps;
  const type = getNullableType(start);
  const fieldsOf = (): AnyField[] =>
    objectsOf(place.schema, getNamedType(type)).flatMap((object) => Object.values(object.getFields()));
  if (use === "id" && (isListType(type) || (step === undefined && !isLeafType(type))))
    return `expected a single value, got one of the type ${start}`;
  if (step === undefined) {
    if (use === "key" || isLeafType(type)) return undefined;
    if (isListType(type)) return missingList(at + EACH);
    const fields = isInputObjectType(type) ? Object.values(type.getFields()) : fieldsOf();
    // Where fields have resolvers, their object can be a plain id.
    if (isCompositeType(type) && (fields as AnyField[]).some(hasOwnResolver)) return undefined;
    return noSingleValue(at, String(start), fields);
  }
  const next = at + textOf(step);
  const below = rest.map(textOf).join("");
  if (isListType(type)) {
    if (step === EACH) return mistakeBelow(use, place, type.ofType, next, rest);
    return use === "tag"
      ? missingList(`${at}${EACH}${textOf(step)}${below}`)
      : `expected a path that ends at a list, got one that leads through a value of type \`${start}\`; write ${at}`;
  }
  if (isCustomScalar(type)) return undefined;
  if (step === EACH)
    return `expected a list before [], got a value of type \`${start}\`; write ${connectionRemedy(type, at, rest) ?? at + below}`;
  if (isLeafType(type)) return `expected an object, got a value of type \`${start}\`, which has no fields`;
  if (isInputObjectType(type)) {
    const input = type.getFields()[step];
    return input === undefined
      ? unknownInput(step, Object.values(type.getFields()))
      : mistakeBelow(use, place, input.type, next, rest);
  }
  const fields = [...(isInterfaceType(type) ? (Object.values(type.getFields()) as AnyField[]) : []), ...fieldsOf()];
  const named = fields.filter(({ name }) => name === step);
  // What the object has there is up to the resolver of the field, if it reads it at all.
  if (named.some(hasOwnResolver)) return undefined;
  if (named[0] !== undefined) return mistakeBelow(use, place, named[0].type, next, rest);
  const names = [...new Set(fields.map(({ name }) => name))];
  // A property that is no field can only be meant if a resolver may read it.
  if (fields.some(hasOwnResolver) && !isMisspelt(step, names)) return undefined;
  return `unknown field \`${step}\` of \`${type.name}\`; expected one of ${quoted(names)}; for a property that is no field, ${place.otherwise}`;
}

/** Other properties than fields are fine: a cached field has a resolver, which may read them. */
function misspeltField([step]: readonly string[], parent: GraphQLObjectType): string | undefined {
  const names = Object.keys(parent.getFields());
  if (step === undefined || step === EACH || names.includes(step) || !isMisspelt(step, names)) return undefined;
  return `unknown field \`${step}\` of \`${parent.name}\`; did you mean \`${closestTo(step, names)}\`?`;
}

/** Not what a database calls a field: `_id`, `uid`, `ids`, `directorId` or `director_id`. */
function isMisspelt(name: string, fields: readonly string[]): boolean {
  const closest = closestTo(name, fields);
  if (closest === undefined || name.endsWith(closest)) return false;
  if (name.startsWith(closest) && /^([A-Z_]|s$)/.test(name.slice(closest.length))) return false;
  const plain = (one: string): string => one.replaceAll("_", "").toLowerCase();
  return plain(name) !== plain(closest);
}

const quoted = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(", ");

const unknownInput = (step: string, known: readonly { readonly name: string }[]): string =>
  `unknown argument or input field \`${step}\`; ${known.length === 0 ? "the field has no arguments" : `expected one of ${quoted(known.map(({ name }) => name))}`}`;

const noSingleValue = (at: string, typeName: string, fields: readonly { readonly name: string }[]): string =>
  `expected a single value, got an object of type \`${typeName}\`, which yields no tag; write ${fields.some(({ name }) => name === "id") ? `${at}.id` : "the path to a field of it"}`;

function connectionRemedy(type: GraphQLType, at: string, rest: readonly string[]): string | undefined {
  const edges = isObjectType(type) ? type.getFields().edges : undefined;
  if (edges === undefined || !isListType(getNullableType(edges.type))) return undefined;
  const below = rest[0] === "node" ? rest.slice(1) : rest;
  return `${at}.edges[].node${below.map(textOf).join("")}`;
}

/** A custom scalar can contain anything. */
const isCustomScalar = (type: GraphQLType): boolean =>
  isLeafType(type) && !isEnumType(type) && !specifiedScalarTypes.some(({ name }) => name === type.name);

const textOf = (step: string): string => (step === EACH ? EACH : `.${step}`);
