import { type GraphQLNamedType, type GraphQLSchema, getNamedType, isAbstractType, isObjectType } from "graphql";
import type { FieldRule } from "../../schema-rules.js";
import type { PrivateValues } from "../../tier/source/private-values.js";
import type { Resolver } from "../compile/own-resolver.js";
import { privateHintIn } from "../hints/response-hint.js";

/**
 * Returns the types whose objects can be the parent of a cached field that is PUBLIC without having said so itself, or lead to one: of these,
 * it matters where they came from.
 */
export function typesWithOrigin(
  schema: GraphQLSchema,
  rules: ReadonlyMap<string, FieldRule>,
): ReadonlySet<GraphQLNamedType> {
  const all = new Set<GraphQLNamedType>();
  const composites = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type) || isAbstractType(type));
  const matters = (type: (typeof composites)[number]): boolean =>
    isAbstractType(type)
      ? schema.getPossibleTypes(type).some((member) => all.has(member))
      : Object.values(type.getFields()).some((field) => {
          const policy = rules.get(`${type.name}.${field.name}`)?.policy;
          return (policy?.scope === "PUBLIC" && policy.isDeclaredPublic !== true) || all.has(getNamedType(field.type));
        });
  let size: number;
  do {
    size = all.size;
    for (const type of composites) if (!all.has(type) && matters(type)) all.add(type);
  } while (all.size > size);
  return all;
}

/** Wraps the resolver of a PRIVATE field: what it returns is PRIVATE, wherever it comes from. */
export const privateResolver =
  (coordinate: string, resolve: Resolver, values: PrivateValues): Resolver =>
  (source, args, context, info) => {
    const value: unknown = resolve(source, args, context, info);
    return values.isAsked ? values.noteSettled(value, coordinate, context) : value;
  };

/**
 * Wraps the resolver of a field that is not cached. What it returns is PRIVATE if its parent is, if it has read a PRIVATE loader (before it
 * awaited anything else, since nothing tells afterwards whose read it is), or if it sets the cache hint PRIVATE.
 */
export const derivingResolver =
  (coordinate: string, resolve: Resolver, values: PrivateValues): Resolver =>
  (source, args, context, info) => {
    const { loaderReads } = values;
    const value: unknown = resolve(source, args, context, info);
    const from = values.coordinateOf(source) ?? (values.loaderReads === loaderReads ? undefined : values.lastLoader);
    if (from !== undefined) return values.noteSettled(value, from, context);
    const isPrivate = privateHintIn(info);
    return isPrivate === undefined ? value : values.noteSettled(value, coordinate, context, isPrivate);
  };
