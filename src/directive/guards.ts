import {
  type GraphQLNamedType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getNamedType,
  isAbstractType,
  isInterfaceType,
  isObjectType,
} from "graphql";
import type { AnyField } from "./field-rule.js";

/** What may carry directives: in its SDL, in extensions of it, and in `extensions.directives` of a code-first schema. */
interface Annotated {
  readonly astNode?:
    | { readonly directives?: readonly { readonly name: { readonly value: string } }[] }
    | null
    | undefined;
  readonly extensionASTNodes?: readonly NonNullable<Annotated["astNode"]>[] | undefined;
  readonly extensions?: object | undefined;
}

/**
 * The directive of `names` that says a field is not for everybody; undefined where there is none.
 * It counts on the field, on its parent type, on the interfaces that have the field, and on what it returns: the type, the members of a union, and those who
 * implement an interface. Federation's `federation__policy` counts as `policy`.
 */
export function guardOf(
  schema: GraphQLSchema,
  parent: GraphQLObjectType,
  field: AnyField,
  names: readonly string[],
): string | undefined {
  const returned = getNamedType(field.type);
  const interfaces = parent.getInterfaces();
  const places: readonly (Annotated | undefined)[] = [
    field,
    parent,
    ...interfaces.flatMap((one) =>
      one.getFields()[field.name] === undefined ? [] : [one.getFields()[field.name], one],
    ),
    returned,
    ...(isObjectType(returned) || isInterfaceType(returned) ? returned.getInterfaces() : []),
    ...(isAbstractType(returned) ? schema.getPossibleTypes(returned) : []),
  ] as readonly (Annotated | undefined)[];
  return places.flatMap(directiveNames).find((name) => names.includes(name));
}

function directiveNames(place: Annotated | undefined): string[] {
  const nodes = [place?.astNode, ...(place?.extensionASTNodes ?? [])];
  const written = nodes.flatMap((node) => node?.directives?.map(({ name }) => name.value) ?? []);
  const { directives } = (place?.extensions ?? {}) as { readonly directives?: unknown };
  const said = Array.isArray(directives)
    ? directives.map((one) => String((one as { name?: unknown } | null)?.name))
    : Object.keys((directives as object | undefined) ?? {});
  return [...written, ...said].map((name) => name.split("__").at(-1) ?? name);
}

/**
 * The coordinates of the fields of `isPrivate` that a value of `field` carries with it: those without a resolver, in the types it returns and in what these
 * return without one.
 */
export function carriedPrivate(
  schema: GraphQLSchema,
  field: AnyField,
  isPrivate: (coordinate: string) => boolean,
): string[] {
  const seen = new Set<GraphQLNamedType>();
  const found: string[] = [];
  const visit = (type: GraphQLNamedType): void => {
    if (seen.has(type)) return;
    seen.add(type);
    if (isAbstractType(type)) for (const possible of schema.getPossibleTypes(type)) visit(possible);
    if (!isObjectType(type)) return;
    for (const inner of Object.values(type.getFields())) {
      if (inner.resolve !== undefined) continue;
      const coordinate = `${type.name}.${inner.name}`;
      if (isPrivate(coordinate)) found.push(coordinate);
      visit(getNamedType(inner.type));
    }
  };
  visit(getNamedType(field.type));
  return found;
}
