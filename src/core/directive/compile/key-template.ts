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
import { typeAt } from "./value-types.js";

/**
 * Returns what the keys of a field depend on besides the inputs of a call: the scope, the paths, and what the schema
 * says about the values they lead to. Two releases with the same template give a call the same key.
 *
 * Of the arguments in the key, those count that every call has, or whose value has several spellings: required ones,
 * those with a default, and ids. An optional argument that a release adds does not count, because calls without it
 * keep their key.
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

/** Returns the texts of the arguments that count, and of the input objects in them, each visited once: filters often contain each other. */
function inputTexts(args: readonly Input[], write: ValueWriter): string[] {
  const fieldsOf = new Map<GraphQLInputObjectType, readonly Input[]>();
  const holdersOf = new Map<GraphQLInputObjectType, GraphQLInputObjectType[]>();
  const reached = new Set(args.flatMap(objectIn));
  // A set is also iterated over what is added meanwhile.
  for (const object of reached) {
    const fields = Object.values(object.getFields());
    fieldsOf.set(object, fields);
    for (const inner of fields.flatMap(objectIn)) {
      getOrMake(holdersOf, inner, () => []).push(object);
      reached.add(inner);
    }
  }
  const counting = new Set([...reached].filter((object) => fieldsOf.get(object)?.some(counts)));
  for (const object of counting) for (const holder of holdersOf.get(object) ?? []) counting.add(holder);
  const textsOf = (inputs: readonly Input[]): string[] =>
    inputs
      .filter((input) => counts(input) || objectIn(input).some((object) => counting.has(object)))
      .map((input) => inputText(input, write))
      .sort();
  const objects = [...counting].sort((one, other) => (one.name < other.name ? -1 : 1));
  const objectTexts = objects.map((object) => `${object.name}{${textsOf(fieldsOf.get(object) ?? []).join(" ")}}`);
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
