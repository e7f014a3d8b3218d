import { isWriteInProgress, type Reading, type TagVersion } from "../store/store.js";
import type { ControlRecord } from "./control-record.js";
import { evaluateFreshness, type Freshness } from "./freshness.js";
import type { ReadRequest } from "./request.js";
import type { Respond } from "./respond.js";
import type { Waiters } from "./waiters.js";

/** The tags that were derived from the value of a key when this process last read it. */
export interface RememberedTags {
  /** See `ResultTags.list`. */
  readonly list: Buffer;
  readonly names: readonly string[];
}

/** Remembered tags, with their versions as read together with the key. */
export interface TagsReadAhead {
  readonly tags: RememberedTags;
  readonly versions: readonly TagVersion[];
}

/**
 * The result of one store read for a request. Requests of one tick for the same key and tags share
 * it.
 */
export interface ReadResult {
  readonly reading: Reading;
  readonly tagNames: readonly string[];
  /** The versions of `tagNames`, in the same order. */
  readonly tagVersions: readonly TagVersion[];
  /** Undefined if the process remembers no tags of a value at the key. */
  readonly ahead: TagsReadAhead | undefined;
  /** `NearCache.changeCount` when the read began. */
  readonly changeCount: number;
  /** The outcome of the miss, once one of the requests has begun to resolve it for all of them. */
  sharedMiss: SharedMiss | undefined;
}

/** A miss that several requests of one tick share. */
export interface SharedMiss {
  readonly waiters: Waiters;
  /** See `MissStart.deadlineAt`. */
  readonly deadlineAt: number;
  readonly outcome: Promise<Respond>;
}

/**
 * Returns what the request may do with the result of its read. Undefined if the store did not
 * reply.
 */
export function freshnessOf(
  request: ReadRequest,
  { reading, tagVersions }: ReadResult,
  control: ControlRecord,
): Freshness | undefined {
  if (reading.kind === "failed") return undefined;
  if (tagVersions.length > 0 && tagVersions.some((version) => version !== undefined && isWriteInProgress(version)))
    return "write-in-progress";
  const signature = control.signatureOf(request, tagVersions);
  // Without a listed variant and all tag versions nothing can be served; only a write in progress is
  // independent of both.
  if (signature === undefined && reading.entry?.state !== "write-in-progress") return "absent";
  return evaluateFreshness(reading.entry, request.policy, reading.now, signature ?? "");
}

/** Returns whether an entry may be served without waiting for a load. */
export const isServable = (freshness: Freshness | undefined): boolean =>
  freshness === "fresh" || freshness === "stale-while-revalidate" || freshness === "stale-backoff";
