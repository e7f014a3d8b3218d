/**
 * The call that asked for an invalidation.
 *
 * - `entityTags`: a mutation has returned the entities.
 * - `cacheInvalidate` and the other names of mutations: an operator.
 * - `set` and `delete`: the key-value cache.
 * - `retry`: an earlier invalidation that the store had not confirmed, or may have lost.
 */
export type InvalidationVia =
  | "cache.invalidate"
  | "cache.invalidateTags"
  | "cache.clear"
  | "cache.mutate"
  | "@invalidates"
  | "entityTags"
  | "cacheInvalidate"
  | "cacheInvalidateAll"
  | "cacheInvalidateTags"
  | "cacheClear"
  | "outbox"
  | "set"
  | "delete"
  | "retry";

/** Who asked for an invalidation. Contains no user data. */
export interface InvalidationCause {
  readonly via: InvalidationVia;
  /** The mutation field that asked for it with `@invalidates` or entity tags, such as `Mutation.updateMovie`. */
  readonly mutation?: string;
}

/** The cause of an invalidation that is repeated. */
export const RETRY: InvalidationCause = { via: "retry" };
