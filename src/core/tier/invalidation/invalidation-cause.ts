import type { InvalidationVia } from "../../telemetry/events.js";

/** Who asked for an invalidation. Contains no user data. */
export interface InvalidationCause {
  readonly via: InvalidationVia;
  /** The mutation field that asked for it with `@invalidates` or entity tags, such as `Mutation.updateMovie`. */
  readonly mutation?: string;
}

/** The cause of an invalidation that is repeated. */
export const RETRY: InvalidationCause = { via: "retry" };
