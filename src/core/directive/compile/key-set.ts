import { Kind, parse, type SelectionSetNode } from "graphql";
import { attempt, isObject } from "../../base/built-in.js";
import type { KeyFields } from "../../schema-rules.js";

/** Returns the fields of a `@key`. Undefined if it has none, or anything but fields. */
export function keyFieldsOf(set: SelectionSetNode | undefined): KeyFields | undefined {
  const fields = new Map<string, KeyFields | undefined>();
  for (const selection of set?.selections ?? []) {
    if (selection.kind !== Kind.FIELD) return undefined;
    const { name, selectionSet } = selection;
    if (name.value === "__typename") continue;
    const below = keyFieldsOf(selectionSet);
    if (selectionSet !== undefined && below === undefined) return undefined;
    fields.set(name.value, below);
  }
  return fields.size === 0 ? undefined : fields;
}

/** Parses the argument of a federation directive: `id organization { id }`. */
export function parseSelection(text: unknown): SelectionSetNode | undefined {
  if (typeof text !== "string") return undefined;
  const [definition] = attempt(() => parse(`{${text}}`, { noLocation: true }))?.definitions ?? [];
  return definition?.kind === Kind.OPERATION_DEFINITION ? definition.selectionSet : undefined;
}

/** Returns the paths to the values in a key, such as `id` and `organization.id`. */
export function keyPathsOf(fields: KeyFields): string[] {
  return [...fields].flatMap(([name, below]) =>
    below === undefined ? [name] : keyPathsOf(below).map((path) => `${name}.${path}`),
  );
}

/** Returns the template of the tag of an entity, by the paths to what identifies it. */
export const entityTemplate = (typeName: string, root: "source" | "result", paths: readonly string[]): string =>
  [typeName, ...paths.map((path) => `{$${root}.${path}}`)].join(":");

/** Returns the key in a representation. Undefined if a part of it is missing or null. */
export function keyPartOf(fields: KeyFields, representation: unknown): Record<string, unknown> | undefined {
  if (!isObject(representation)) return undefined;
  const part: Record<string, unknown> = {};
  for (const [name, below] of fields) {
    const given = representation[name];
    const value = below === undefined ? given : keyPartOf(below, given);
    if (value === undefined || value === null) return undefined;
    part[name] = value;
  }
  return part;
}

/** Whether a representation has all fields of a key, and nothing else but its `__typename`. */
export function isOnlyKey(fields: KeyFields, representation: unknown): boolean {
  if (!isObject(representation)) return false;
  const { __typename: _, ...others } = representation;
  return hasExactly(fields, others);
}

const hasExactly = (fields: KeyFields, given: unknown): boolean =>
  isObject(given) &&
  Object.keys(given).length === fields.size &&
  [...fields].every(([name, below]) =>
    below === undefined ? given[name] !== undefined && given[name] !== null : hasExactly(below, given[name]),
  );
