import { Kind, parse, type SelectionSetNode } from "graphql";
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

/**
 * Parses the selection in an argument of a federation directive: `id organization { id }`.
 * Undefined if it is none.
 */
export function parseSelection(text: unknown): SelectionSetNode | undefined {
  if (typeof text !== "string") return undefined;
  try {
    const [definition] = parse(`{${text}}`, { noLocation: true }).definitions;
    return definition?.kind === Kind.OPERATION_DEFINITION ? definition.selectionSet : undefined;
  } catch {
    return undefined;
  }
}

/** Returns the paths to the values in a key, such as `id` and `organization.id`, in their order. */
export function keyPathsOf(fields: KeyFields): string[] {
  return [...fields].flatMap(([name, below]) =>
    below === undefined ? [name] : keyPathsOf(below).map((path) => `${name}.${path}`),
  );
}

/** Returns the template of the tag of an entity that is identified by the values at these paths. */
export const entityTemplate = (typeName: string, root: "source" | "result", paths: readonly string[]): string =>
  [typeName, ...paths.map((path) => `{$${root}.${path}}`)].join(":");

/**
 * Returns the part of a representation that is its key by `fields`. Undefined if some of it is
 * missing or null.
 */
export function keyPartOf(fields: KeyFields, representation: unknown): Record<string, unknown> | undefined {
  if (typeof representation !== "object" || representation === null) return undefined;
  const part: Record<string, unknown> = {};
  for (const [name, below] of fields) {
    const given = (representation as Record<string, unknown>)[name];
    const value = below === undefined ? given : keyPartOf(below, given);
    if (value === undefined || value === null) return undefined;
    part[name] = value;
  }
  return part;
}

export function isOnlyKey(fields: KeyFields, representation: object, isOutermost = true): boolean {
  return Object.entries(representation).every(([name, value]) => {
    if (isOutermost && name === "__typename") return true;
    const below = fields.get(name);
    return below === undefined ? fields.has(name) : isOnlyKey(below, value as object, false);
  });
}
