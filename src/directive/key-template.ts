import { type GraphQLObjectType, getNamedType, isInputObjectType, isRequiredArgument } from "graphql";
import { defaultOf, type Input } from "../graphql-version.js";
import { canonicalize, type ValueWriter } from "../keys/canonical.js";
import type { Policy } from "../policy/policy.js";
import type { KeyPath } from "../schema-rules.js";
import type { AnyField } from "./field-rule.js";
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
    ...[...new Set(used)].flatMap((argument) => inputText(argument, new Set(), write) ?? []).sort(),
    ...sources.map((path) => `${path.text}:${withoutNonNull(typeAt(path, parent, field))}`),
  ];
}

/** Returns undefined for an input that does not count. `within`: the input objects around it. */
function inputText(input: Input, within: ReadonlySet<unknown>, write: ValueWriter): string | undefined {
  const { name, type } = input;
  const defaultValue = defaultOf(input);
  const named = getNamedType(type);
  const fields =
    isInputObjectType(named) && !within.has(named)
      ? Object.values(named.getFields()).flatMap((field) => inputText(field, new Set([...within, named]), write) ?? [])
      : [];
  const counts = isRequiredArgument(input as never) || defaultValue !== undefined || named.name === "ID";
  if (!counts && fields.length === 0) return undefined;
  const fallback = defaultValue === undefined ? "" : `=${canonicalText(defaultValue, write)}`;
  return `${name}:${withoutNonNull(type)}${fallback}{${fields.sort().join(" ")}}`;
}

/** Whether a value can be null does not change the text of one that is not. */
const withoutNonNull = (type: unknown): string => String(type).replaceAll("!", "");

function canonicalText(value: unknown, write: ValueWriter): string {
  try {
    return canonicalize(value, write);
  } catch {
    return typeof value;
  }
}
