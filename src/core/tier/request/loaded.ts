import type { CachedError } from "../../base/errors.js";
import type { Encoded } from "../../codec/packing.js";
import type { Policy } from "../../policy/policy.js";
import { TOO_LARGE_MARK, UNSERIALIZABLE_MARK } from "../../store/entry.js";
import type { ResponseHint } from "../../store/entry-layout.js";
import type { OwnSettings } from "./result-control.js";

export interface LoadedValue {
  readonly kind: "loaded";
  readonly isCallersOwn: false;
  /** The source's own object. */
  readonly value: unknown;
  /** Undefined: the value can be stored, or nobody asked, as its key is known not to be. */
  readonly refusal: Refusal | undefined;
  readonly hint: ResponseHint | undefined;
  readonly settings: OwnSettings | undefined;
  readonly loadMs: number;
  /** See `ReadRequest.begunAt`. */
  readonly begunAt: number;
  /** What `content` was decoded to, for the copies of all but the first reader. */
  decoded?: { readonly value: unknown };
  /** What copies are decoded from. Undefined if none would be exact: it must not be shared then. */
  readonly content: Encoded | undefined;
}

/**
 * Why a value is not stored: the codec cannot restore it, it is larger than `maxValueBytes`,
 * GraphQL would refuse it, it depends on more than its key, or it was made of a source that is
 * older than an invalidation.
 */
export type Refusal = "unserializable" | "too-large" | "invalid" | "outdated" | Excess["kind"];

interface RefusalRule {
  /** How the lease ends: given up, without anything kept, or with a mark for all who ask. */
  readonly lease: "abandoned" | "unkept" | Uint8Array;
  /** Who gets a copy. "earlier": whoever began to read no later than the load. */
  readonly copies: "all" | "none" | "earlier";
  /** Whether a response that contains the value may be stored. */
  readonly isStoredInResponses: boolean;
}

/** What each refusal means for whoever else asks for the value. */
export const REFUSALS: Readonly<Record<Refusal, RefusalRule>> = {
  unserializable: { lease: UNSERIALIZABLE_MARK, copies: "none", isStoredInResponses: false },
  "too-large": { lease: TOO_LARGE_MARK, copies: "all", isStoredInResponses: true },
  // GraphQL puts null in its place, with an error for which the response is not stored.
  invalid: { lease: "unkept", copies: "all", isStoredInResponses: true },
  // The next one who asks may have a newer source. A response knows itself whether it is outdated.
  outdated: { lease: "abandoned", copies: "earlier", isStoredInResponses: true },
  unkeyable: { lease: UNSERIALIZABLE_MARK, copies: "none", isStoredInResponses: false },
};

/** A load has read more than its key contains, so its result belongs to its own reader alone. */
export interface Excess {
  readonly kind: "unkeyable";
  /** Whether it is PRIVATE although its policy is PUBLIC: what contains it is PRIVATE as well. */
  readonly isNarrowed?: boolean;
  readonly error: CachedError;
}

export type Loaded = LoadedValue | FailedLoad;

export interface FailedLoad {
  readonly kind: "failed";
  readonly error: unknown;
  /** What others get. Null: nothing, they load for themselves. Undefined: `error`. */
  readonly forOthers?: { readonly error: unknown } | null;
  /** In what way the load depends on more than its key, or on what is outdated. */
  readonly refusal: Excess["kind"] | "outdated" | undefined;
  readonly loadMs: number;
  readonly begunAt: number;
  /** Whether it concerns its caller only (abort, `isCallerError`): nobody else may get it. */
  readonly isCallersOwn: boolean;
  /** False if the source has answered that it has no value: no old value takes its place then. */
  readonly isSourceFailure: boolean;
}

export const errorOf = ({ error, forOthers }: FailedLoad, isOwn: boolean): unknown =>
  isOwn || !forOthers ? error : forOthers.error;

/** Whether a result belongs to the reader that loaded it, so that `reader` loads for itself. */
export function isUnshareable(
  loaded: Loaded,
  { begunAt = Number.POSITIVE_INFINITY }: { readonly begunAt?: number },
): boolean {
  const copies = loaded.refusal === undefined ? "all" : REFUSALS[loaded.refusal].copies;
  if (copies === "none" || (copies === "earlier" && !(begunAt <= loaded.begunAt))) return true;
  return loaded.kind === "loaded" ? loaded.content === undefined : loaded.forOthers === null;
}

/** Returns how long a loaded value is fresh, before jitter. 0: it is not stored. */
export function freshMsOf(policy: Policy, { value, settings, hint }: LoadedValue): number {
  if (settings?.isSkipped === true) return 0;
  const ofKindMs = isNegative(value) ? policy.negativeMaxAgeMs : policy.maxAgeMs;
  const hintedMs = policy.followsHints === true ? (hint?.maxAge ?? Number.POSITIVE_INFINITY) * 1000 : ofKindMs;
  const byPolicyMs = Math.min(ofKindMs, hintedMs);
  const ownMs = settings?.freshness?.maxAgeMs;
  return ownMs === undefined ? byPolicyMs : Math.min(ownMs, policy.maxAgeLimitMs ?? byPolicyMs);
}

/** Whether a load has set that only those who have waited for its result get it. */
export const isForWaitersOnly = (policy: Policy, loaded: Loaded): boolean =>
  loaded.kind === "loaded" && loaded.settings !== undefined && freshMsOf(policy, loaded) === 0;

export const isNegative = (value: unknown): boolean =>
  value === null || value === undefined || (Array.isArray(value) && value.length === 0);
