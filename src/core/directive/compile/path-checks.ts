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
 * written.
 */
export function mistakeInPath(path: Path, use: Use, at: TemplatePlace): string | undefined {
  const mistake = mistakeIn(path, use, at);
  return mistake && `\`${path.text}\`: ${mistake}`;
}

type Use = "key" | "tag";

function mistakeIn({ text, root, steps }: Path, use: Use, place: TemplatePlace): string | undefined {
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

/** A key or a tag of a field that is read, and where it is written. */
export interface TemplatePlace {
  readonly reading: SchemaReading;
  readonly parent: GraphQLObjectType;
  readonly field: AnyField;
  readonly isRoot: boolean;
  readonly place: Place;
}

/** `at`: the path so far, which leads to a value of type `start`. */
function mistakeBelow(
  use: Use,
  place: TemplatePlace,
  start: GraphQLType,
  at: string,
  steps: readonly string[],
): string | undefined {
  const missingList = (remedy: string): string =>
    `expected [] for the members of a list, which a value of type \`${start}\` is; write ${remedy}`;
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
  const otherProperties = place.place.source.endsWith("invalidates")
    ? "call cache.invalidateTags in the resolver"
    : "add the tag with resultControl(info).set({ tags })";
  return `unknown field \`${step}\` of \`${type.name}\`; expected one of ${quoted(names)}; for a property that is no field, ${otherProperties}`;
}

/** Other properties than fields are fine: a cached field has a resolver, which may read them. */
function misspeltField([step]: readonly string[], parent: GraphQLObjectType): string | undefined {
  const names = Object.keys(parent.getFields());
  if (step === undefined || step === EACH || names.includes(step) || !isMisspelt(step, names)) return undefined;
  return `unknown field \`${step}\` of \`${parent.name}\`; did you mean \`${closestTo(step, names)}\`?`;
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

interface Named {
  readonly name: string;
}

const quoted = (names: readonly string[]): string => names.map((name) => `\`${name}\``).join(", ");

const unknownInput = (step: string, known: readonly Named[]): string =>
  `unknown argument or input field \`${step}\`; ${known.length === 0 ? "the field has no arguments" : `expected one of ${quoted(known.map(({ name }) => name))}`}`;

const noSingleValue = (at: string, typeName: string, fields: readonly Named[]): string =>
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
