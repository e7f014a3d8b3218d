import {
  defaultFieldResolver,
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
 * Finds the directive of `names` that says a field is not for everybody; undefined where there is none.
 * It counts on the field, on its parent type, on the interfaces that have the field, and on what it returns: the type, the members of a union, and those who
 * implement an interface. Federation's `federation__policy` counts as `policy`. What a type says is looked up once.
 */
export function guardsIn(
  schema: GraphQLSchema,
  names: readonly string[],
): (parent: GraphQLObjectType, field: AnyField) => string | undefined {
  const guardAt = (place: Annotated | undefined): string | undefined =>
    directiveNames(place).find((name) => names.includes(name));
  const onType = memoized((type: GraphQLNamedType) => guardAt(type as Annotated));
  const ofValue = memoized((returned: GraphQLNamedType) => {
    const interfaces = isObjectType(returned) || isInterfaceType(returned) ? returned.getInterfaces() : [];
    const possible = isAbstractType(returned) ? schema.getPossibleTypes(returned) : [];
    return firstOf([returned, ...interfaces, ...possible], onType);
  });
  return (parent, field) => {
    const holders = parent.getInterfaces().filter((one) => one.getFields()[field.name] !== undefined);
    return (
      guardAt(field) ??
      onType(parent) ??
      firstOf(holders, (one) => guardAt(one.getFields()[field.name] as Annotated) ?? onType(one)) ??
      ofValue(getNamedType(field.type))
    );
  };
}

function firstOf<Place>(places: readonly Place[], find: (place: Place) => string | undefined): string | undefined {
  for (const place of places) {
    const found = find(place);
    if (found !== undefined) return found;
  }
  return undefined;
}

function memoized<Key, Value>(make: (key: Key) => Value): (key: Key) => Value {
  const known = new Map<Key, Value>();
  return (key) => {
    if (!known.has(key)) known.set(key, make(key));
    return known.get(key) as Value;
  };
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
 * Says which private fields a value of a type carries with it: those without a resolver, in the type itself and in what its fields without one return.
 * `isPrivate` is asked once for each such field; from the private ones it goes backwards to the types that carry them, as there are few.
 */
export function carriedPrivate(
  schema: GraphQLSchema,
  isPrivate: (coordinate: string) => boolean,
): (returned: GraphQLNamedType) => readonly string[] {
  const objectsOf = (type: GraphQLNamedType): readonly GraphQLObjectType[] =>
    isAbstractType(type) ? schema.getPossibleTypes(type) : isObjectType(type) ? [type] : [];
  const carriers = new Map<GraphQLObjectType, Set<GraphQLObjectType>>();
  const found: { readonly coordinate: string; readonly type: GraphQLObjectType }[] = [];
  for (const type of Object.values(schema.getTypeMap()))
    for (const field of isObjectType(type) ? Object.values(type.getFields()) : []) {
      if (field.resolve !== undefined && field.resolve !== defaultFieldResolver) continue;
      const coordinate = `${type.name}.${field.name}`;
      if (isPrivate(coordinate)) found.push({ coordinate, type: type as GraphQLObjectType });
      for (const inner of objectsOf(getNamedType(field.type))) {
        const known = carriers.get(inner) ?? new Set();
        carriers.set(inner, known.add(type as GraphQLObjectType));
      }
    }
  const carried = found.map(({ coordinate, type }) => ({ coordinate, by: reached(type, carriers) }));
  return (returned) => {
    if (carried.length === 0) return [];
    const objects = objectsOf(returned);
    return carried.filter(({ by }) => objects.some((one) => by.has(one))).map(({ coordinate }) => coordinate);
  };
}

function reached<Node>(start: Node, next: ReadonlyMap<Node, ReadonlySet<Node>>): ReadonlySet<Node> {
  const seen = new Set([start]);
  for (const node of seen) for (const further of next.get(node) ?? []) seen.add(further);
  return seen;
}
