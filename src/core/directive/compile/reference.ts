import {
  type GraphQLInterfaceType,
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLResolveInfo,
  type GraphQLSchema,
  getNullableType,
  isInterfaceType,
  isListType,
  isObjectType,
  Kind,
  type SelectionSetNode,
} from "graphql";
import { isPlainObject } from "../../base/built-in.js";
import type { ValueWriter } from "../../keys/canonical.js";
import type { KeyFields } from "../../schema-rules.js";
import { directivesAt, federationNames } from "./directives.js";
import type { AnyField } from "./field-rule.js";
import { entityTemplate, keyFieldsOf, keyPathsOf, parseSelection } from "./key-set.js";
import { typeAt } from "./value-types.js";

/** The name under which references are cached. No field can have it. */
export const REFERENCE = "__resolveReference";

export type KeyedType = GraphQLObjectType | GraphQLInterfaceType;

export type ReferenceResolver = (representation: unknown, context: unknown, info: GraphQLResolveInfo) => unknown;

interface Extensions {
  readonly apollo?: { readonly subgraph?: { readonly resolveReference?: ReferenceResolver } };
}

/** What Mercurius sets on a type. It calls this with other parameters than Apollo. */
interface Referable {
  resolveReference?: unknown;
}

/** Returns the `__resolveReference` of a type as `@apollo/subgraph` calls it. */
export function referenceResolverOf(type: KeyedType): ReferenceResolver | undefined {
  const resolve = (type.extensions as Extensions).apollo?.subgraph?.resolveReference;
  return typeof resolve === "function" ? resolve : undefined;
}

/** Whether a type has a `__resolveReference` that is called in a way that is not known here. */
export const hasOtherReferenceResolver = (type: KeyedType): boolean =>
  (type as Referable).resolveReference !== undefined && referenceResolverOf(type) === undefined;

/** Lets a copy of a type resolve references as the original does, but with what `wrap` returns. */
export function copyReferenceResolver(
  copy: KeyedType,
  original: KeyedType,
  wrap: (resolve: ReferenceResolver) => ReferenceResolver,
): void {
  const { resolveReference } = original as Referable;
  if (resolveReference !== undefined) (copy as Referable).resolveReference = resolveReference;
  const resolve = referenceResolverOf(original);
  if (resolve === undefined) return;
  const { apollo, ...others } = original.extensions as Extensions;
  const subgraph = { ...apollo?.subgraph, resolveReference: wrap(resolve) };
  copy.extensions = { ...others, apollo: { ...apollo, subgraph } };
}

export function entityKeysOf(schema: GraphQLSchema, type: KeyedType): KeyFields[] {
  const keys = federationNames(schema, "key").flatMap((name) => directivesAt(schema, type, name));
  return keys.flatMap(({ fields, resolvable }) =>
    resolvable === false ? [] : (keyFieldsOf(parseSelection(fields)) ?? []),
  );
}

/** Returns `__resolveReference` as the field without arguments that it would be. */
export const referenceField = (type: KeyedType): AnyField =>
  ({
    name: REFERENCE,
    description: undefined,
    type: type as AnyField["type"],
    args: [],
    deprecationReason: undefined,
    extensions: {},
    astNode: undefined,
    // In graphql 17, fields are of a class.
  }) as Partial<AnyField> as AnyField;

/** Returns the field of a coordinate, and its type. For references, the field of these. */
export function fieldAt(
  schema: GraphQLSchema,
  coordinate: string,
): { readonly type: KeyedType; readonly field: AnyField } | undefined {
  const [typeName = "", fieldName = ""] = coordinate.split(".");
  const type = schema.getType(typeName);
  if (!isObjectType(type) && !isInterfaceType(type)) return undefined;
  const field = fieldName === REFERENCE ? referenceField(type) : type.getFields()[fieldName];
  return field === undefined ? undefined : { type, field };
}

/** The `_entities` resolver adds `__typename` to an object, and read-only values are frozen. */
export function toExtensible(value: unknown): unknown {
  if (typeof value !== "object" || value === null || Object.isExtensible(value)) return value;
  return Object.create(Object.getPrototypeOf(value) as object | null, Object.getOwnPropertyDescriptors(value));
}

/** As in `Product:7`. Keys that a representation lacks are those of the entity. */
export function referenceTagsOf({ name }: KeyedType, entityKeys: readonly KeyFields[]): string[] {
  const roots = entityKeys.length === 1 ? (["source"] as const) : (["source", "result"] as const);
  return roots.flatMap((root) => entityKeys.map((fields) => entityTemplate(name, root, keyPathsOf(fields))));
}

/** What the names of an entity's entries depend on besides their parts: its keys, with types. */
export const referenceKeyTemplates = (type: KeyedType, entityKeys: readonly KeyFields[]): string[] =>
  entityKeys.map((fields) => {
    const typed = keyPathsOf(fields).map((text) => {
      const path = { text, root: "source", steps: text.split(".") } as const;
      return `${text}:${typeAt(path, type as GraphQLObjectType, referenceField(type))}`;
    });
    return `@key ${typed.join(" ").replaceAll("!", "")}`;
  });

/** Writes a representation without its `__typename`, which all references of a rule have. */
export const representationWriter =
  (write: ValueWriter): ValueWriter =>
  (value, depth) => {
    if (!isPlainObject(value) || !("__typename" in value)) return write(value, depth);
    const { __typename: _, ...fields } = value;
    return write(fields, depth);
  };

/**
 * Returns the paths to the values that a field of a federation entity is computed from by its
 * `@requires`, such as `price` and `size.height`. They come from other subgraphs, with the
 * representation of the entity. A path ends at a list, and where the selection depends on a type.
 */
export function requiredPathsOf(schema: GraphQLSchema, parent: KeyedType, field: AnyField): string[] {
  return federationNames(schema, "requires")
    .flatMap((name) => directivesAt(schema, field, name))
    .flatMap(({ fields }) => pathsIn(parseSelection(fields), parent));
}

function pathsIn(set: SelectionSetNode | undefined, type: GraphQLNamedType): string[] {
  return (set?.selections ?? []).flatMap((selection) => {
    if (selection.kind === Kind.FRAGMENT_SPREAD) return [];
    if (selection.kind === Kind.INLINE_FRAGMENT) return pathsIn(selection.selectionSet, type);
    const name = selection.name.value;
    if (name === "__typename") return [];
    const field = "getFields" in type ? (type.getFields() as Record<string, AnyField>)[name] : undefined;
    const inner = field === undefined ? undefined : getNullableType(field.type);
    if (selection.selectionSet === undefined || isListType(inner) || !isObjectType(inner)) return [name];
    return pathsIn(selection.selectionSet, inner).map((path) => `${name}.${path}`);
  });
}
