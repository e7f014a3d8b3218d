import { defaultFieldResolver } from "graphql";
import type { CacheParts } from "../../parts.js";
import type { AnyField } from "./field-rule.js";

export type Resolver = NonNullable<AnyField["resolve"]>;

/** Marks the resolvers made by `applyCached`, and holds what each of them was made from. Registered, for two copies of this package. */
const WRAPPED: unique symbol = Symbol.for("graphql-cached.wrapped") as never;

export interface Wrapped {
  readonly inner: Resolver;
  readonly cache: CacheParts;
  /** The options of `applyCached`, as text. */
  readonly options: string;
}

export function markWrapped(outer: object, wrapped: Wrapped): void {
  Object.defineProperty(outer, WRAPPED, { value: wrapped });
}

/** Returns what `applyCached` has wrapped with this resolver. Undefined if it has not made it. */
export const wrappedBy = (resolve: object): Wrapped | undefined =>
  WRAPPED in resolve ? (resolve[WRAPPED] as Wrapped) : undefined;

/**
 * By name, because graphql-tools binds the resolvers it is given, and `defaultMergedResolver` is one of its own. A bundler
 * can rename `defaultFieldResolver`.
 */
const READS_PROPERTY = /^(bound )?default(Field|Merged)Resolver$/;
const BOUND_DEFAULT = `bound ${defaultFieldResolver.name}`;

/**
 * Whether a field has a resolver of its own, so that its value is not simply a property of its
 * parent. In a stitched schema, `defaultMergedResolver` reads that property. What the cache wraps
 * counts as without it, so that a schema which is applied twice is the same both times.
 */
export function hasOwnResolver({ resolve }: AnyField): boolean {
  const own = resolve === undefined ? undefined : (wrappedBy(resolve)?.inner ?? resolve);
  return (
    own !== undefined && own !== defaultFieldResolver && own.name !== BOUND_DEFAULT && !READS_PROPERTY.test(own.name)
  );
}

/** Whether Grafast (PostGraphile 5) answers a field by a plan. A resolver would take its place. */
export function hasPlan({ extensions }: AnyField): boolean {
  const { grafast } = extensions as {
    readonly grafast?: { readonly plan?: unknown; readonly subscribePlan?: unknown };
  };
  return grafast?.plan !== undefined || grafast?.subscribePlan !== undefined;
}
