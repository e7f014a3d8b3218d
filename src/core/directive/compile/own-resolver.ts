import { defaultFieldResolver, type GraphQLSchema, isInterfaceType, isObjectType } from "graphql";
import type { CacheParts } from "../../parts.js";
import { AppliedRules, type SchemaRules } from "../../schema-rules.js";
import type { AnyField } from "./field-rule.js";
import { REFERENCE, referenceResolverOf } from "./reference.js";

/**
 * Whether a field has a resolver of its own, so that its value is not simply a property of its
 * parent. In a stitched schema, `defaultMergedResolver` reads that property. What the cache wraps
 * counts as without it, so that a schema which is applied twice is the same both times.
 */
export function hasOwnResolver({ resolve }: Pick<AnyField, "resolve">): boolean {
  const own = resolve === undefined ? undefined : (wrappedBy(resolve)?.inner ?? resolve);
  return (
    own !== undefined && own !== defaultFieldResolver && own.name !== BOUND_DEFAULT && !READS_PROPERTY.test(own.name)
  );
}

export type Resolver = NonNullable<AnyField["resolve"]>;

/** On resolvers of `applyCached`. Registered, for two copies of this package. */
const WRAPPED: unique symbol = Symbol.for("graphql-cached.wrapped") as never;

interface Wrapped {
  readonly inner: Resolver;
  readonly cache: CacheParts;
  readonly options: string;
  /** Whether it tells this cache something, and does not only hand on where a value comes from. */
  readonly usesCache: boolean;
}

export function markWrapped<Outer extends object>(outer: Outer, wrapped: Wrapped): Outer {
  return Object.defineProperty(outer, WRAPPED, { value: wrapped });
}

/** Returns what `applyCached` has wrapped with this resolver. Undefined if it has not made it. */
export const wrappedBy = (resolve: object): Wrapped | undefined =>
  WRAPPED in resolve ? (resolve[WRAPPED] as Wrapped) : undefined;

/** By name: graphql-tools binds resolvers, and a bundler can rename `defaultFieldResolver`. */
const READS_PROPERTY = /^(bound )?default(Field|Merged)Resolver$/;
const BOUND_DEFAULT = `bound ${defaultFieldResolver.name}`;

/** Whether Grafast (PostGraphile 5) answers a field by a plan. A resolver would take its place. */
export function hasPlan({ extensions }: AnyField): boolean {
  const { plan, subscribePlan } = (extensions.grafast ?? {}) as Readonly<Record<string, unknown>>;
  return plan !== undefined || subscribePlan !== undefined;
}

/** Whether a schema delegates to others, which are executed and cached elsewhere. */
export const isStitched = ({ extensions }: GraphQLSchema): boolean => "stitchingInfo" in extensions;

/** Returns the first field of `schema` that reads through another cache, and that cache. */
export function readThroughAnother(schema: GraphQLSchema, parts: CacheParts) {
  for (const type of Object.values(schema.getTypeMap())) {
    if (!isObjectType(type) && !isInterfaceType(type)) continue;
    const references = { name: REFERENCE, resolve: referenceResolverOf(type) };
    for (const { name, resolve } of [...Object.values(type.getFields()), references]) {
      const wrapped = resolve && wrappedBy(resolve);
      if (wrapped?.usesCache && wrapped.cache !== parts)
        return { coordinate: `${type.name}.${name}`, cache: wrapped.cache };
    }
  }
  return undefined;
}

/** In the extensions of a schema. A string, since transforms do not copy those of symbols. */
const APPLIED = "graphqlCached";

/** Returns the rules of a schema, if its mark is that of the cache. Merging keeps functions. */
type Mark = (cache: CacheParts) => SchemaRules | undefined;

/** Marks a schema that `applyCached` returns, and copies of it. */
export function markApplied(schema: GraphQLSchema, parts: CacheParts, rules: SchemaRules): void {
  const mark: Mark = (cache) => (cache === parts ? rules : undefined);
  schema.extensions = { ...schema.extensions, [APPLIED]: [...marksOf(schema), mark] };
}

const marksOf = ({ extensions }: GraphQLSchema): readonly Mark[] => (extensions[APPLIED] as Mark[]) ?? [];

/** Returns the rules of a cache for a schema, or for its original. Undefined without a mark. */
export function markedRules(schema: GraphQLSchema, parts: CacheParts): SchemaRules | undefined {
  const own = marksOf(schema).flatMap((mark) => mark(parts) ?? []);
  if (own.length <= 1) return own[0];
  const merged = new AppliedRules();
  for (const rules of own) merged.add(rules);
  return merged;
}

/** Of one schema, or of all where they cannot be told apart, as in a stitched one. */
export const rulesOf = (schema: GraphQLSchema, parts: CacheParts): SchemaRules =>
  (isStitched(schema) ? undefined : markedRules(schema, parts)) ?? parts.rules;
