import { types } from "node:util";
import { ignoreRejection } from "../base/deferred.js";
import { CachedError, describeSetting, keyUnusable, optionInvalid } from "../base/errors.js";
import type { Policy } from "../policy/policy.js";

/** The identity of a caller as canonical text: 7, "7" and 7n are one identity. */
export type Identity = string;

type Identify = ((context: never) => unknown) | undefined;

/**
 * The texts that `String` and `JSON.stringify` make of missing values, objects and functions, alone
 * or as a part, such as `user:undefined`, which unrelated callers would share. People can have the
 * name Null: `null@example.com` is a value.
 */
const MISSING =
  /(?<![\p{L}\p{N}])(?:undefined|NaN|Infinity|Invalid Date|\{\}|\[\]|\[object [^\]]*\])(?![\p{L}\p{N}])|(?<![\p{L}\p{N}@])null(?![\p{L}\p{N}]|[^\s:|/]{0,64}@)|=>|\bfunction ?\w{0,50}\(/u;

/** An identity with an empty part, or none. Those of Amazon's resource names may be empty. */
const EMPTY_PART = /^\s*$|^(?!arn:)(?:.*[:|,;])?\s*(?:[:|,;]|$)/s;

const isMissing = (identity: string): boolean => MISSING.test(identity) || EMPTY_PART.test(identity);

/** Undefined if it is not certain: missing, invalid, rounded or a promise, or `identify` threw. */
export function identityOf(identify: Identify, context: unknown): Identity | undefined {
  try {
    const identity = identify?.(context as never);
    if (typeof identity === "string") return isMissing(identity) ? undefined : identity;
    if (typeof identity === "number") return isExact(identity) ? String(identity) : undefined;
    // A promise is not an identity. Its rejection would otherwise be unhandled.
    ignoreRejection(identity);
    return typeof identity === "bigint" ? String(identity) : undefined;
  } catch {
    return undefined;
  }
}

/** Throws `CACHED_KEY_UNUSABLE` for a PUBLIC entry with an identity, and a PRIVATE one without. */
export function identityOfTarget(
  target: { readonly private?: unknown },
  { coordinate, policy }: { readonly coordinate: string; readonly policy: Policy },
  kind: "field" | "loader" | "function",
): Identity | undefined {
  const isPrivate = policy.scope === "PRIVATE";
  const identity = isPrivate ? identityOf(() => target.private, undefined) : undefined;
  if (isPrivate ? identity !== undefined : !("private" in target)) return identity;
  const expected = isPrivate
    ? `the identity that owns the entry (a non-empty string, a number or a bigint), since the ${kind} is PRIVATE`
    : `nothing, since the entries of the ${kind} belong to no identity; leave it out`;
  throw keyUnusable(`${kind === "field" ? "" : `${kind} `}\`${coordinate}\`: \`private\`: expected ${expected}`, {
    coordinate,
  });
}

/** Larger integers are rounded, so that several users could have the same number. */
const isExact = (identity: number): boolean => Math.abs(identity) <= Number.MAX_SAFE_INTEGER;

/** Returns the error of an invalid identity, or of `identify`. Null, undefined and "" are valid. */
export function identityMistake(
  identify: Identify,
  context: unknown,
  coordinate: string,
  place = "createCache",
): CachedError | undefined {
  let problem: string;
  let cause: unknown;
  try {
    const identity = identify?.(context as never);
    if (identity === undefined || identity === null || identity === "") return undefined;
    if (types.isPromise(identity)) {
      ignoreRejection(identity);
      problem = "got a promise; resolve the identity while the context is created";
    } else if (typeof identity === "number" && Number.isFinite(identity)) {
      problem = "got a number above Number.MAX_SAFE_INTEGER, which may be rounded; return the id as a string";
    } else {
      problem = `got ${typeof identity === "string" ? "a string that stands for a missing value" : describeSetting(identity)}; return a user id`;
    }
  } catch (error) {
    problem = "it threw an exception, the cause of this error";
    cause = error;
  }
  return optionInvalid(
    `${place}: \`identify\`: expected a string, number, bigint, null or undefined, ${problem}; until then PRIVATE fields such as \`${coordinate}\` are not cached`,
    { coordinate, ...(cause === undefined ? {} : { cause }) },
  );
}

/** The value could be that of another user. `what`: "identity", or a path in the context. */
export const contextChanged = (coordinate: string, what: string): CachedError =>
  new CachedError(
    "CACHED_IDENTITY_CHANGED",
    `\`${coordinate}\`: expected the context to keep its ${what === "identity" ? what : `\`${what}\``} until the load has ended, got another one; create one context per request and do not change it`,
    { coordinate },
  );
