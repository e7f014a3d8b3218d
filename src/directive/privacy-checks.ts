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
import { hasOwnResolver } from "./own-resolver.js";

/**
 * The parts of a field or type that can carry directives: SDL, SDL extensions, and
 * `extensions.directives` in code-first schemas.
 */
interface Annotated {
  readonly astNode?:
    | { readonly directives?: readonly { readonly name: { readonly value: string } }[] | undefined }
    | null
    | undefined;
  readonly extensionASTNodes?: readonly NonNullable<Annotated["astNode"]>[] | undefined;
  readonly extensions?: object | undefined;
}

/**
 * Returns a function that finds the auth directive covering a field, one of `names`, or undefined
 * if there is none. A directive counts on the field, on its parent type, on the interfaces that
 * have the field, and on the returned type: its interfaces, the members of a union and the
 * implementations of an interface included. Federation's `federation__policy` counts as `policy`.
 * Results are memoized per type.
 */
export function createAuthDirectiveFinder(
  schema: GraphQLSchema,
  names: readonly string[],
): (parent: GraphQLObjectType, field: AnyField) => string | undefined {
  const directiveOn = (target: Annotated | undefined): string | undefined =>
    directiveNames(target).find((name) => names.includes(name));
  const onType = memoize((type: GraphQLNamedType) => directiveOn(type as Annotated));
  const onReturnedType = memoize((returned: GraphQLNamedType) => {
    const interfaces = isObjectType(returned) || isInterfaceType(returned) ? returned.getInterfaces() : [];
    const possible = isAbstractType(returned) ? schema.getPossibleTypes(returned) : [];
    return firstOf([returned, ...interfaces, ...possible], onType);
  });
  return (parent, field) => {
    const holders = parent.getInterfaces().filter((type) => type.getFields()[field.name] !== undefined);
    return (
      directiveOn(field) ??
      onType(parent) ??
      firstOf(holders, (holder) => directiveOn(holder.getFields()[field.name] as Annotated) ?? onType(holder)) ??
      onReturnedType(getNamedType(field.type))
    );
  };
}

function firstOf<Target>(targets: readonly Target[], find: (target: Target) => string | undefined): string | undefined {
  for (const target of targets) {
    const name = find(target);
    if (name !== undefined) return name;
  }
  return undefined;
}

function memoize<Key, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const memo = new Map<Key, Value>();
  return (key) => {
    if (!memo.has(key)) memo.set(key, compute(key));
    return memo.get(key) as Value;
  };
}

function directiveNames(target: Annotated | undefined): string[] {
  const nodes = [target?.astNode, ...(target?.extensionASTNodes ?? [])];
  const inSdl = nodes.flatMap((node) => node?.directives?.map(({ name }) => name.value) ?? []);
  const { directives } = (target?.extensions ?? {}) as { readonly directives?: unknown };
  const inExtensions = Array.isArray(directives)
    ? directives.map((directive) => String((directive as { name?: unknown } | null)?.name))
    : Object.keys((directives as object | undefined) ?? {});
  return [...inSdl, ...inExtensions].map((name) => name.split("__").at(-1) ?? name);
}

/**
 * Returns a function that lists the private fields embedded in the values of a type: those without
 * a resolver, in the type itself or in what its fields without a resolver return.
 * The search runs backwards, from the private fields to the types that embed them, since private
 * fields are few.
 */
export function createEmbeddedPrivateFinder(
  schema: GraphQLSchema,
  isPrivate: (coordinate: string) => boolean,
): (returned: GraphQLNamedType) => readonly string[] {
  const objectsOf = (type: GraphQLNamedType): readonly GraphQLObjectType[] =>
    isAbstractType(type) ? schema.getPossibleTypes(type) : isObjectType(type) ? [type] : [];
  const embedders = new Map<GraphQLObjectType, Set<GraphQLObjectType>>();
  const privateFields: { readonly coordinate: string; readonly type: GraphQLObjectType }[] = [];
  for (const type of Object.values(schema.getTypeMap()))
    for (const field of isObjectType(type) ? Object.values(type.getFields()) : []) {
      if (hasOwnResolver(field)) continue;
      const coordinate = `${type.name}.${field.name}`;
      if (isPrivate(coordinate)) privateFields.push({ coordinate, type: type as GraphQLObjectType });
      for (const inner of objectsOf(getNamedType(field.type))) {
        const outer = embedders.get(inner) ?? new Set();
        embedders.set(inner, outer.add(type as GraphQLObjectType));
      }
    }
  const embedded = privateFields.map(({ coordinate, type }) => ({ coordinate, within: reachable(type, embedders) }));
  return (returned) => {
    if (embedded.length === 0) return [];
    const objects = objectsOf(returned);
    return embedded
      .filter(({ within }) => objects.some((type) => within.has(type)))
      .map(({ coordinate }) => coordinate);
  };
}

function reachable<Node>(start: Node, next: ReadonlyMap<Node, ReadonlySet<Node>>): ReadonlySet<Node> {
  const seen = new Set([start]);
  for (const node of seen) for (const neighbor of next.get(node) ?? []) seen.add(neighbor);
  return seen;
}
