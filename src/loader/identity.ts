import { CachedError } from "../errors.js";

/** Who is asking, as far as a key needs to know. */
export type Identity = string | number | bigint;

/** Answers who is asking, from a request's context. */
type Identify = ((context: never) => unknown) | undefined;

/** What `String` makes of somebody unknown: as an identity it would be everybody's. */
const NOBODY = /^(?:\s*|undefined|null|NaN|\[object .*\])$/s;

/**
 * Asks `identify` who is asking. Undefined where that is not known for certain: no answer, an empty or odd one, a promise, or an error.
 * Nothing private is ever cached for somebody unknown.
 */
export function identityOf(identify: Identify, context: unknown): Identity | undefined {
  try {
    const identity = identify?.(context as never);
    if (typeof identity === "string") return NOBODY.test(identity) ? undefined : identity;
    if (typeof identity === "number") return Number.isFinite(identity) ? identity : undefined;
    // A promise is no answer; if it rejects, nobody else is there to hear it.
    if (identity instanceof Promise) identity.catch(() => undefined);
    return typeof identity === "bigint" ? identity : undefined;
  } catch {
    return undefined;
  }
}

/** Somebody's private load. */
export interface PrivateLoad {
  readonly coordinate: string;
  readonly identity: Identity | undefined;
  readonly identify: Identify;
  readonly context: unknown;
}

/**
 * Runs the load of a private value for the one whose key it is. A context that says somebody else when the load begins or ends, since requests share
 * and change it, would have one user's value stored for another: that load fails.
 * Errors: `CACHED_IDENTITY_CHANGED`, and those of `load`.
 */
export async function loadPrivate(asked: PrivateLoad, load: () => unknown): Promise<unknown> {
  checkIdentity(asked);
  const value = await load();
  checkIdentity(asked);
  return value;
}

function checkIdentity({ coordinate, identity, identify, context }: PrivateLoad): void {
  if (identityOf(identify, context) === identity) return;
  throw new CachedError(
    "CACHED_IDENTITY_CHANGED",
    `\`${coordinate}\` is PRIVATE, and its context was expected to say who is asking until its load has ended; it says somebody else by now: make a context a request, and leave it as it is`,
    { coordinate },
  );
}
