import type { InvalidationWay } from "../telemetry/events.js";

/** Who asked for an invalidation. */
export interface InvalidationCause {
  readonly via: InvalidationWay;
  /** The mutation field that was executed, such as `Mutation.updateMovie`, for `@invalidates` and `entityTags`. */
  readonly mutation?: string;
}
