import {
  type GraphQLObjectType,
  type GraphQLSchema,
  type GraphQLType,
  getNullableType,
  isAbstractType,
  isCompositeType,
  isEnumType,
  isInputObjectType,
  isInterfaceType,
  isLeafType,
  isListType,
  isObjectType,
  specifiedScalarTypes,
} from "graphql";
import { closestTo } from "../../base/spelling.js";
import { EACH, type Path } from "../../keys/path.js";
import type { AnyField } from "./field-rule.js";
import { hasOwnResolver } from "./own-resolver.js";
import { REFERENCE } from "./reference.js";

/** Where a path is written, and what it can lead into. */
export interface PathPlace {
  readonly schema: GraphQLSchema;
  readonly parent: GraphQLObjectType;
  readonly field: AnyField;
  readonly isRoot: boolean;
  readonly use: "key" | "tag";
  /** What to do about a property that is no field. */
  readonly otherProperties: string;
}

/**
 * Returns what is wrong with a path, as far as the schema says what it leads through. Arguments have the types that they
 * declare. The objects of resolvers can have other properties than the fields of their type, which resolvers of these
 * fields read; whether they do shows when a tag is written. Undefined if nothing is wrong.
 */
export function mistakeInPath(path: Path, place: PathPlace): string | undefined {
  const { field, parent, isRoot, use } = place;
  switch (path.root) {
    case "source":
      if (isRoot) return `\`${path.text}\`: root fields have no parent object; use arguments, such as $args.id`;
      return misspeltField(path, parent);
    case "args": {
      if (field.name === REFERENCE)
        return `\`${path.text}\`: a \`${REFERENCE}\` has no arguments; use $source, the representation, or set it on the fields that return the type`;
      const [name, ...steps] = path.steps;
      // All arguments, which are part of keys only.
      if (name === undefined) return use === "key" ? undefined : noSingleValue(path, "object", "arguments", field.args);
      const argument = field.args.find((one) => one.name === name);
      if (argument === undefined) return unknownInput(path, name, field.args);
      return new PathWalk(path, place).mistakeBelow(argument.type, `$args.${name}`, steps);
    }
    case "result":
      return new PathWalk(path, place).mistakeBelow(field.type, "$result", path.steps);
    default:
      return undefined;
  }
}

class PathWalk {
  readonly #path: Path;
  readonly #place: PathPlace;

  constructor(path: Path, place: PathPlace) {
    this.#path = path;
    this.#place = place;
  }

  /** `at`: the path so far, which leads to a value of type `start`. */
  mistakeBelow(start: GraphQLType, at: string, steps: readonly string[]): string | undefined {
    const { schema, use } = this.#place;
    const [step, ...rest] = steps;
    const type = getNullableType(start);
    const below = rest.map(textOf).join("");
    if (step === undefined) return use === "key" ? undefined : this.#mistakeAtEnd(start, at);
    if (isListType(type)) {
      if (step === EACH) return this.mistakeBelow(type.ofType, at + EACH, rest);
      return use === "key"
        ? this.#say(
            `expected a path that ends at a list, got one that leads through a value of type \`${start}\`; write ${at}`,
          )
        : this.#missingList(start, `${at}${EACH}${textOf(step)}${below}`);
    }
    if (step === EACH) {
      if (isCustomScalar(type)) return undefined;
      const remedy = connectionRemedy(type, at, rest) ?? at + below;
      return this.#say(`expected a list before [], got a value of type \`${start}\`; write ${remedy}`);
    }
    if (isLeafType(type)) {
      if (isCustomScalar(type)) return undefined;
      return this.#say(`expected an object, got a value of type \`${start}\`, which has no fields`);
    }
    if (isInputObjectType(type)) {
      const inputs = Object.values(type.getFields());
      const input = inputs.find(({ name }) => name === step);
      if (input === undefined) return unknownInput(this.#path, step, inputs);
      return this.mistakeBelow(input.type, at + textOf(step), rest);
    }
    const objects = isObjectType(type) ? [type] : isAbstractType(type) ? schema.getPossibleTypes(type) : [];
    const ofInterface = isInterfaceType(type) ? Object.values(type.getFields()) : [];
    const fields = [...ofInterface, ...objects.flatMap((object) => Object.values(object.getFields()))] as AnyField[];
    const named = fields.filter(({ name }) => name === step);
    if (named.length === 0) return this.#unknownField(step, type.name, fields);
    // What the object has there is up to the resolver of the field, if it reads it at all.
    if (named.some(hasOwnResolver)) return undefined;
    return this.mistakeBelow((named[0] as AnyField).type, at + textOf(step), rest);
  }

  #mistakeAtEnd(start: GraphQLType, at: string): string | undefined {
    const type = getNullableType(start);
    if (isListType(type)) return this.#missingList(start, at + EACH);
    if (isLeafType(type)) return undefined;
    const { schema } = this.#place;
    const fields = isAbstractType(type)
      ? schema.getPossibleTypes(type).flatMap((object) => Object.values(object.getFields()))
      : Object.values(type.getFields());
    // Where fields have resolvers, their object can be a plain id.
    if (isCompositeType(type) && (fields as AnyField[]).some(hasOwnResolver)) return undefined;
    return noSingleValue(this.#path, "object", String(start), fields, at);
  }

  #missingList(start: GraphQLType, remedy: string): string {
    return this.#say(`expected [] for the members of a list, which a value of type \`${start}\` is; write ${remedy}`);
  }

  /** A property that is no field can only be meant if a resolver may read it. */
  #unknownField(step: string, typeName: string, fields: readonly AnyField[]): string | undefined {
    const names = [...new Set(fields.map(({ name }) => name))];
    if (fields.some(hasOwnResolver) && !isMisspelt(step, names)) return undefined;
    const known = names.map((name) => `\`${name}\``).join(", ");
    return this.#say(
      `unknown field \`${step}\` of \`${typeName}\`; expected one of ${known}; for a property that is no field, ${this.#place.otherProperties}`,
    );
  }

  #say(mistake: string): string {
    return `\`${this.#path.text}\`: ${mistake}`;
  }
}

/** A field that is cached has a resolver, so its parent object can have properties that are no fields. */
function misspeltField({ text, steps: [step] }: Path, parent: GraphQLObjectType): string | undefined {
  const names = Object.keys(parent.getFields());
  if (step === undefined || step === EACH || names.includes(step) || !isMisspelt(step, names)) return undefined;
  return `\`${text}\`: unknown field \`${step}\` of \`${parent.name}\`; did you mean \`${closestTo(step, names)}\`?`;
}

/**
 * Whether a name is a misspelling of a field, and not what a database calls it, such as `_id`, `uid`, `ids`,
 * `directorId` beside `director`, or `director_id`.
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

/** What to write for the members of a connection, which are in its edges. */
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
