import type { AnyField } from "./field-rule.js";

type Resolver = NonNullable<AnyField["resolve"]>;

/** Marks the resolvers made by `applyCached`, and holds the one that each of them wraps. */
const WRAPPED: unique symbol = Symbol("graphql-cached.wrapped");

export function markWrapped(outer: Resolver, inner: Resolver): void {
  Object.defineProperty(outer, WRAPPED, { value: inner });
}

/** Whether `applyCached` has made this resolver. */
export const isWrapped = (resolve: Resolver): boolean => WRAPPED in resolve;

/** By name, because graphql-tools binds the resolvers it is given. */
const READS_PROPERTY = /^(bound )?default(Field|Merged)Resolver$/;

/**
 * Whether a field has a resolver of its own, so that its value is not simply a property of its
 * parent. In a stitched schema, `defaultMergedResolver` reads that property. What the cache wraps
 * counts as without it, so that a schema which is applied twice is the same both times.
 */
export function hasOwnResolver({ resolve }: AnyField): boolean {
  const own = resolve !== undefined && WRAPPED in resolve ? (resolve[WRAPPED] as Resolver) : resolve;
  return own !== undefined && !READS_PROPERTY.test(own.name);
}
