import {
  type GraphQLObjectType,
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
import { closestTo } from "../../base/option-names.js";
import { EACH, type Path } from "../../keys/path.js";
import type { AnyField } from "./field-rule.js";
import { hasOwnResolver } from "./own-resolver.js";
import { REFERENCE } from "./reference.js";
import type { Place, SchemaReading } from "./schema-reading.js";
import { objectsOf } from "./type-graph.js";

/**
 * Returns what is wrong with a path, as far as the schema says what it leads through. Arguments
 * have the types that they declare. The objects of resolvers can have other properties than the
 * fields of their type, which resolvers of these fields read; whether they do shows when a tag is
 * written. Undefined if nothing is wrong.
 */
export function mistakeInPath(path: Path, use: "key" | "tag", place: TemplatePlace): string | undefined {
  const { field, parent, isRoot } = place;
  if (path.root === "source")
    return isRoot
      ? `\`${path.text}\`: root fields have no parent object; use arguments, such as $args.id`
      : misspeltField(path, parent);
  if (path.root === "result") return mistakeBelow(path, { ...place, use }, field.type, "$result", path.steps);
  if (path.root !== "args") return undefined;
  if (field.name === REFERENCE)
    return `\`${path.text}\`: a \`${REFERENCE}\` has no arguments; use $source, the representation, or set it on the fields that return the type`;
  const [name, ...steps] = path.steps;
  // All arguments, which are part of keys only.
  if (name === undefined) return use === "key" ? undefined : noSingleValue(path, "object", "arguments", field.args);
  const argument = field.args.find((one) => one.name === name);
  if (argument === undefined) return unknownInput(path, name, field.args);
  return mistakeBelow(path, { ...place, use }, argument.type, `$args.${name}`, steps);
}

/** A key or a tag that is read: at `place`, of the field. */
export interface TemplatePlace {
  readonly reading: SchemaReading;
  readonly parent: GraphQLObjectType;
  readonly field: AnyField;
  readonly isRoot: boolean;
  readonly place: Place;
}

/** `at`: the path so far, which leads to a value of type `start`. */
function mistakeBelow(
  path: Path,
  place: TemplatePlace & { readonly use: "key" | "tag" },
  start: GraphQLType,
  at: string,
  steps: readonly string[],
): string | undefined {
  const { use } = place;
  const say = (mistake: string): string => `\`${path.text}\`: ${mistake}`;
  const missingList = (remedy: string): string =>
    say(`expected [] for the members of a list, which a value of type \`${start}\` is; write ${remedy}`);
  const [step, ...rest] = steps;
  const type = getNullableType(start);
  const fieldsOf = (): AnyField[] =>
    objectsOf(place.reading.inputs.schema, getNamedType(type)).flatMap((object) => Object.values(object.getFields()));
  if (step === undefined) {
    if (use === "key" || isLeafType(type)) return undefined;
    if (isListType(type)) return missingList(at + EACH);
    const fields = isInputObjectType(type) ? Object.values(type.getFields()) : fieldsOf();
    // Where fields have resolvers, their object can be a plain id.
    if (isCompositeType(type) && (fields as AnyField[]).some(hasOwnResolver)) return undefined;
    return noSingleValue(path, "object", String(start), fields, at);
  }
  const below = rest.map(textOf).join("");
  if (isListType(type)) {
    if (step === EACH) return mistakeBelow(path, place, type.ofType, at + EACH, rest);
    if (use === "tag") return missingList(`${at}${EACH}${textOf(step)}${below}`);
    return say(
      `expected a path that ends at a list, got one that leads through a value of type \`${start}\`; write ${at}`,
    );
  }
  if (isCustomScalar(type)) return undefined;
  if (step === EACH) {
    const remedy = connectionRemedy(type, at, rest) ?? at + below;
    return say(`expected a list before [], got a value of type \`${start}\`; write ${remedy}`);
  }
  if (isLeafType(type)) return say(`expected an object, got a value of type \`${start}\`, which has no fields`);
  if (isInputObjectType(type)) {
    const inputs = Object.values(type.getFields());
    const input = inputs.find(({ name }) => name === step);
    if (input === undefined) return unknownInput(path, step, inputs);
    return mistakeBelow(path, place, input.type, at + textOf(step), rest);
  }
  const fields = [...(isInterfaceType(type) ? (Object.values(type.getFields()) as AnyField[]) : []), ...fieldsOf()];
  const named = fields.filter(({ name }) => name === step);
  // What the object has there is up to the resolver of the field, if it reads it at all.
  if (named.some(hasOwnResolver)) return undefined;
  if (named[0] !== undefined) return mistakeBelow(path, place, named[0].type, at + textOf(step), rest);
  const names = [...new Set(fields.map(({ name }) => name))];
  // A property that is no field can only be meant if a resolver may read it.
  if (fields.some(hasOwnResolver) && !isMisspelt(step, names)) return undefined;
  const known = names.map((name) => `\`${name}\``).join(", ");
  const otherProperties = place.place.source.endsWith("invalidates")
    ? "call cache.invalidateTags in the resolver"
    : "add the tag with resultControl(info).set({ tags })";
  return say(
    `unknown field \`${step}\` of \`${type.name}\`; expected one of ${known}; for a property that is no field, ${otherProperties}`,
  );
}

/**
 * A field that is cached has a resolver, so its parent object can have properties that are no
 * fields.
 */
function misspeltField({ text, steps: [step] }: Path, parent: GraphQLObjectType): string | undefined {
  const names = Object.keys(parent.getFields());
  if (step === undefined || step === EACH || names.includes(step) || !isMisspelt(step, names)) return undefined;
  return `\`${text}\`: unknown field \`${step}\` of \`${parent.name}\`; did you mean \`${closestTo(step, names)}\`?`;
}

/**
 * Whether a name is a misspelling of a field, and not what a database calls it, such as `_id`,
 * `uid`, `ids`, `directorId` or `director_id`.
 */
function isMisspelt(name: string, fields: readonly string[]): boolean {
  const closest = closestTo(name, fields);
  if (closest === undefined || name.endsWith(closest)) return false;
  if (name.startsWith(closest) && /^([A-Z_]|s$)/.test(name.slice(closest.length))) return false;
  const plain = (one: string): string => one.replaceAll("_", "").toLowerCase();
  return plain(name) !== plain(closest);
}

function unknownInput({ text }: Path, step: string, known: readonly { readonly name: string }[]): string {
  const names = known.map(({ name }) => `\`${name}\``).join(", ");
  const remedy = names === "" ? "the field has no arguments" : `expected one of ${names}`;
  return `\`${text}\`: unknown argument or input field \`${step}\`; ${remedy}`;
}

function noSingleValue(
  { text }: Path,
  kind: string,
  typeName: string,
  fields: readonly { readonly name: string }[],
  at = text,
): string {
  const remedy = fields.some(({ name }) => name === "id") ? `${at}.id` : "the path to a field of it";
  return `\`${text}\`: expected a single value, got an ${kind} of type \`${typeName}\`, which yields no tag; write ${remedy}`;
}

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
