import { NO_SIGNATURE } from "../store/entry.js";
import { isWriteInProgress, type Reading, type TagVersion } from "../store/store.js";
import { evaluateFreshness, type Freshness } from "./freshness.js";
import { type ReadRequest, signatureOf } from "./request.js";
import type { Respond } from "./respond.js";

/** What one look at the store showed a request. */
export interface ReadResult {
  readonly reading: Reading;
  /** The tags whose tagVersions these are. */
  readonly tagNames: readonly string[];
  /** In the order of `tagNames`. */
  readonly tagVersions: readonly TagVersion[];
  /** The place of the near cache's last change when the look began. */
  readonly mark: number;
  /** What those who found nothing to serve have set out on together. */
  sharedMiss: Promise<Respond> | undefined;
}

/** Says what the request may do with what it has seen; undefined where the store did not answer. */
export function freshnessOf(request: ReadRequest, { reading, tagVersions }: ReadResult): Freshness | undefined {
  if (reading.kind === "failed") return undefined;
  if (tagVersions.length > 0 && tagVersions.some((version) => version !== undefined && isWriteInProgress(version)))
    return "write-in-progress";
  const signature = request.tags.rule === "" ? NO_SIGNATURE : signatureOf(request.tags, tagVersions);
  // Without all tagVersions nothing can be served; only a writeMark counts whatever the tags are.
  if (signature === undefined && reading.entry?.state !== "write-in-progress") return "absent";
  return evaluateFreshness(reading.entry, request.policy, reading.now, signature ?? "");
}

export const isServable = (freshness: Freshness | undefined): boolean =>
  freshness === "fresh" || freshness === "stale-while-revalidate" || freshness === "stale-backoff";
