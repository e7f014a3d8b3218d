import { NO_SIGNATURE } from "../store/entry.js";
import { isFence, type Nonce, type Reading } from "../store/store.js";
import type { Ending } from "./ending.js";
import { judge, type Verdict } from "./judge.js";
import { type ReadRequest, signatureOf } from "./request.js";

/** What one look at the store showed a request. */
export interface Sight {
  readonly reading: Reading;
  /** The tags whose nonces these are. */
  readonly tagNames: readonly string[];
  /** In the order of `tagNames`. */
  readonly nonces: readonly Nonce[];
  /** The place of the near cache's last change when the look began. */
  readonly mark: number;
  /** What those who found nothing to serve have set out on together. */
  pursuit: Promise<Ending> | undefined;
}

/** Says what the request may do with what it has seen; undefined where the store did not answer. */
export function verdictOf(request: ReadRequest, { reading, nonces }: Sight): Verdict | undefined {
  if (reading.kind === "failed") return undefined;
  if (nonces.length > 0 && nonces.some((nonce) => nonce !== undefined && isFence(nonce))) return "fenced";
  const signature = request.tags.rule === "" ? NO_SIGNATURE : signatureOf(request.tags, nonces);
  // Without all nonces nothing can be served; only a fence counts whatever the tags are.
  if (signature === undefined && reading.entry?.state !== "fenced") return "absent";
  return judge(reading.entry, request.policy, reading.now, signature ?? "");
}

export const isServable = (verdict: Verdict | undefined): boolean =>
  verdict === "fresh" || verdict === "stale-while-revalidate" || verdict === "rescued";
