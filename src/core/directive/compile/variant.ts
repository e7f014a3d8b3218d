import { hash } from "node:crypto";
import {
  type GraphQLEnumType,
  type GraphQLInputObjectType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLOutputType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isEnumType,
  isInputObjectType,
  isObjectType,
  isRequiredArgument,
} from "graphql";
import { attempt } from "../../base/built-in.js";
import { defaultOf, type Input } from "../../base/graphql-version.js";
import { getOrMake } from "../../base/multimap.js";
import { byCodeUnits, canonicalize, type ValueWriter } from "../../keys/canonical.js";
import type { Policy } from "../../policy/policy.js";
import type { KeyPath } from "../../schema-rules.js";
import type { AnyField } from "./field-rule.js";
import { hasOwnResolver } from "./own-resolver.js";
import { reached, reversed } from "./type-graph.js";
import { typeAt } from "./value-types.js";

/**
 * The shapes of the types of one schema. The shape of a type is what the schema says about a value
 * of it: the fields of every object type that the value can contain, by name and type, the values
 * of enums, and the members of unions and interfaces. Two releases in which a type has the same
 * shape can read each other's values.
 *
 * A value contains what fields without a resolver read from it. A field with a resolver ends the
 * walk; that it exists still counts, since its resolver reads its parent.
 *
 * Each type is described once, whatever the number of fields that ask for its shape.
 */
export class Shapes {
  readonly #parts = new Map<GraphQLNamedType, Part>();
  /** By the text of the type with its wrappers: each field has wrappers of its own. */
  readonly #digests = new Map<string, string>();

  /** `markOf` returns what else releases have to agree on to share values of a type. */
  constructor(
    private readonly schema: GraphQLSchema,
    private readonly markOf: (type: GraphQLObjectType) => string = () => "",
  ) {}

  of(type: GraphQLOutputType): string {
    const text = String(type);
    return getOrMake(this.#digests, text, () => {
      const types = [...reached<GraphQLNamedType>([getNamedType(type)], (each) => this.#partOf(each).next)];
      return digestOf([text, ...types.map((each) => this.#partOf(each).digest).sort(byCodeUnits)]);
    });
  }

  #partOf(type: GraphQLNamedType): Part {
    return getOrMake(this.#parts, type, () => this.#describe(type));
  }

  #describe(type: GraphQLNamedType): Part {
    if (isAbstractType(type)) {
      const possible = this.schema.getPossibleTypes(type);
      return partOf(type.name, possible.map(String), possible);
    }
    if (!isObjectType(type)) return partOf(type.name, isEnumType(type) ? enumValues(type) : [], []);
    const fields = Object.values(type.getFields());
    // A field that loses its resolver needs a property that older values may lack.
    const texts = fields.map((field) => `${field.name}${hasOwnResolver(field) ? "()" : ""}:${field.type}`);
    const next = fields.filter((field) => !hasOwnResolver(field)).map((field) => getNamedType(field.type));
    return partOf(`${type.name}${this.markOf(type)}`, texts, next);
  }
}

/** What one type adds to a shape, and the types that its values contain. */
interface Part {
  readonly digest: string;
  readonly next: readonly GraphQLNamedType[];
}

/** A stored value holds the internal values of an enum, so these count as well. */
const enumValues = (type: GraphQLEnumType): string[] =>
  type.getValues().map(({ name, value }) => (value === name ? name : `${name}=${textOrType(value)}`));

const textOrType = (value: unknown, write?: ValueWriter): string =>
  attempt(() => canonicalize(value, write)) ?? typeof value;

const partOf = (name: string, texts: readonly string[], next: readonly GraphQLNamedType[]): Part => ({
  digest: digestOf([name, ...[...texts].sort()]),
  next,
});

const digestOf = (texts: readonly string[]): string => hash("sha256", texts.join("\n"), "base64url");

/**
 * Returns what the keys of a field depend on besides the inputs of a call: the scope, the paths,
 * and what the schema says about the values they lead to. Two releases with the same template give
 * a call the same key.
 *
 * Of the arguments in the key, those count that every call has, or whose value has several
 * spellings: required ones, those with a default, and ids. An optional argument that a release adds
 * does not count, because calls without it keep their key.
 */
export function keyTemplateOf(
  paths: readonly KeyPath[],
  scope: Policy["scope"],
  parent: GraphQLObjectType,
  field: AnyField,
  write: ValueWriter,
): string[] {
  const used = paths.flatMap(({ root, steps }) =>
    root === "args" ? field.args.filter(({ name }) => steps.length === 0 || name === steps[0]) : [],
  );
  const sources = paths.filter(({ root }) => root === "source");
  return [
    scope,
    ...paths.map(({ text }) => text),
    ...inputTexts([...new Set(used)], write),
    ...sources.map((path) => `${path.text}:${withoutNonNull(typeAt(path, parent, field))}`),
  ];
}

/** The texts of the arguments that count, and of the input objects in them, which can be cyclic. */
function inputTexts(args: readonly Input[], write: ValueWriter): string[] {
  const known = new Map<GraphQLInputObjectType, readonly Input[]>();
  const fieldsOf = (object: GraphQLInputObjectType) =>
    getOrMake(known, object, () => Object.values(object.getFields()));
  const objectsIn = (object: GraphQLInputObjectType) => fieldsOf(object).flatMap(objectIn);
  const objectsBelow = reached(args.flatMap(objectIn), objectsIn);
  const counting = reached(
    [...objectsBelow].filter((object) => fieldsOf(object).some(counts)),
    reversed(objectsBelow, objectsIn),
  );
  const textsOf = (inputs: readonly Input[]): string[] =>
    inputs
      .filter((input) => counts(input) || objectIn(input).some((object) => counting.has(object)))
      .map((input) => inputText(input, write))
      .sort();
  const objects = [...counting].sort((one, other) => (one.name < other.name ? -1 : 1));
  const objectTexts = objects.map((object) => `${object.name}{${textsOf(fieldsOf(object)).join(" ")}}`);
  return [...textsOf(args), ...objectTexts];
}

const counts = (input: Input): boolean =>
  isRequiredArgument(input as never) || defaultOf(input) !== undefined || getNamedType(input.type).name === "ID";

function objectIn({ type }: Input): GraphQLInputObjectType[] {
  const named = getNamedType(type);
  return isInputObjectType(named) ? [named] : [];
}

function inputText(input: Input, write: ValueWriter): string {
  const defaultValue = defaultOf(input);
  const fallback = defaultValue === undefined ? "" : `=${textOrType(defaultValue, write)}`;
  return `${input.name}:${withoutNonNull(input.type)}${fallback}`;
}

/** Whether a value can be null does not change the text of one that is not. */
const withoutNonNull = (type: unknown): string => String(type).replaceAll("!", "");
