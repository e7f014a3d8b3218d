import {
  type GraphQLInputObjectType,
  type GraphQLObjectType,
  getNamedType,
  isInputObjectType,
  isRequiredArgument,
} from "graphql";
import { defaultOf, type Input } from "../../base/graphql-version.js";
import { getOrMake } from "../../base/multimap.js";
import type { ValueWriter } from "../../keys/canonical.js";
import type { Policy } from "../../policy/policy.js";
import type { KeyPath } from "../../schema-rules.js";
import type { AnyField } from "./field-rule.js";
import { textOrType } from "./shape.js";
import { reached, reversed } from "./type-graph.js";
import { typeAt } from "./value-types.js";

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
