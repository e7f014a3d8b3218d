/** The fields and types with a policy in a schema without its server. */
import {
  type GraphQLField,
  type GraphQLSchema,
  getNamedType,
  isInterfaceType,
  isObjectType,
  isUnionType,
  type Location,
} from "graphql";
import { directivesAt } from "../../core/directive/compile/directive-names.js";
import { entityKeysOf } from "../../core/directive/compile/reference.js";
import { mergeSettings, type PolicySettings } from "../../core/policy/policy.js";
import type { OfflineSchema } from "./schema-document.js";

export interface CachedTarget {
  readonly coordinate: string;
  readonly settings: PolicySettings;
  readonly location: Location | undefined;
  /** Undefined for types. */
  readonly field: GraphQLField<unknown, unknown> | undefined;
}

/** Those whose arguments cannot be read are reported with the policies. `policies`: those of the options, by coordinate. */
export function cachedTargets(
  offline: OfflineSchema,
  directive: string,
  policies: ReadonlyMap<string, PolicySettings>,
): CachedTarget[] {
  const { schema } = offline;
  const inDirective = (target: object): PolicySettings | undefined => {
    try {
      return directivesAt(schema, target, directive)[0] as PolicySettings | undefined;
    } catch {
      return undefined;
    }
  };
  const targetAt = (coordinate: string, target: object, field: CachedTarget["field"]): CachedTarget[] => {
    const { extensions } = target as { readonly extensions?: { readonly cached?: PolicySettings } };
    const layers = [policies.get(coordinate), inDirective(target), extensions?.cached];
    if (layers.every((layer) => layer === undefined)) return [];
    return [{ coordinate, settings: mergeSettings(...layers), location: locationOf(offline, coordinate), field }];
  };
  return Object.values(schema.getTypeMap()).flatMap((type) => {
    if (!isObjectType(type) && !isInterfaceType(type) && !isUnionType(type)) return [];
    const fields = isUnionType(type) ? [] : Object.values(type.getFields());
    return [
      ...targetAt(type.name, type, undefined),
      ...fields.flatMap((field) => targetAt(`${type.name}.${field.name}`, field, field)),
    ];
  });
}

/** Returns where the directive at a coordinate is; for `Movie.__resolveReference`, that of the type. */
export function locationOf({ uses }: OfflineSchema, coordinate: string): Location | undefined {
  const [typeName] = coordinate.split(".");
  const found = [coordinate, typeName].flatMap((name) => uses.find((use) => use.coordinate === name) ?? []);
  const location = found[0]?.node.loc;
  // Positions in a text without a name, which graphql calls so, say nothing.
  return location?.source.name === "GraphQL request" ? undefined : location;
}

/**
 * A schema without its server has no resolvers. Fields with a policy have one, or the policy would be of no use, and
 * so have fields of root types and fields with arguments. Entity types with a policy have a `__resolveReference`.
 */
export function addResolvers(schema: GraphQLSchema, targets: readonly CachedTarget[]): void {
  const cached = new Set(targets.map(({ coordinate }) => coordinate));
  const roots: readonly unknown[] = [schema.getQueryType(), schema.getMutationType(), schema.getSubscriptionType()];
  const resolve = (): undefined => undefined;
  // The types of the introspection are graphql's own objects, the same in each schema.
  const types = Object.values(schema.getTypeMap()).filter((type) => isObjectType(type) && !type.name.startsWith("__"));
  const fields = types.filter(isObjectType).flatMap((type) => {
    if (cached.has(type.name) && entityKeysOf(schema, type).length > 0)
      type.extensions = { ...type.extensions, apollo: { subgraph: { resolveReference: resolve } } };
    return Object.values(type.getFields()).map((field) => ({ type, field }));
  });
  for (const { type, field } of fields)
    if (roots.includes(type) || field.args.length > 0 || cached.has(`${type.name}.${field.name}`))
      field.resolve = resolve;
  // Some field loads the values of a type with a policy: if none is known to, any of them can be the one.
  for (const { coordinate } of targets.filter(({ field }) => field === undefined)) {
    const returning = fields.flatMap(({ field }) => (getNamedType(field.type).name === coordinate ? [field] : []));
    if (returning.every((field) => field.resolve === undefined)) for (const field of returning) field.resolve = resolve;
  }
}
